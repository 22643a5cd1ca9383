"""Trains a linear classifier on a frozen encoder, the paper's protocol (appendix B), beside two baselines.

    python -m cpc_tf.linear --flagfile=flags/photos/linear.flags --encoder=runs/photos/hub --workdir=runs/photos/linear

Leaves in its workdir result.json, table.txt and linear.png, and the baselines' runs in random/ and pixels/.
"""

from cpc_tf import cli
from cpc_tf.linear import picture
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import inside, neighbours, table, with_baselines
from cpc_tf.training.workdir import write_file


def main(config: LinearConfig) -> None:
    """The binary."""
    results = with_baselines(config)
    shown = {title: neighbours(config, title) for title in results if title != "pixels"}
    write_file(inside(config, "linear.png"), picture.draw(results, shown))
    write_file(inside(config, "table.txt"), table(results) + "\n")
    print(f"\n{table(results)}\n\nresults and picture: {config.workdir}")


if __name__ == "__main__":
    cli.run(LinearConfig, main)
