"""Pre-trains an encoder on unlabelled images.

    cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain

After a kill the same command resumes the run. The workdir holds run.flags (replays the run), patches.png (what the
encoder sees), metrics.jsonl, TensorBoard events, checkpoints and, at the end, result.json.
"""

from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain


def main(config: PretrainConfig) -> None:
    """The binary."""
    loss = pretrain(config).get("loss")  # absent if the records of a finished run were lost
    print(f"done: {config.workdir}" + (f", loss {loss:.3f}" if loss is not None else ""))
    print(f"next: cpc-tf export --workdir={config.workdir} --output=HUB_DIR")


if __name__ == "__main__":
    cli.run(PretrainConfig, main)
