"""Settings of the patch augmentation."""

from __future__ import annotations

import dataclasses

from absl import logging

from cpc_tf.augment import operations
from cpc_tf.core.settings import ConfigError, Settings, setting


@dataclasses.dataclass(frozen=True)
class AugmentConfig(Settings):
    """The augmentation of each patch: appendix A steps 1-4, and the earlier policies of
    figure 3.
    """

    augment: str = setting(
        "full",
        "Policy of the patch augmentation. 'none'; 'v1': CPC v1's jitter and grey; 'colour_drop':"
        " jitter and colour dropping; 'full': appendix A; 'small_patches': appendix A without"
        " AutoAugment and grey, and with less hue",
        choices=tuple(operations.POLICIES),
    )
    augment_changes: str = setting(
        "",
        "Changes of entries of the policy --augment, e.g. 'grey=0,distort.hue=0.05': a probability"
        " under the name of its operation, a range under OPERATION.RANGE (docs/paper.md"
        " lists them)",
    )
    augment_engine: str = setting(
        "auto",
        "Engine of the patch augmentation. 'native': the C++ op; 'reference': TensorFlow,"
        " slow; 'auto': native if it can be built and has all operations of the policy",
        choices=("auto", "reference", "native"),
        free_on_resume=True,
    )

    def check(self):
        changes = f"--augment_changes={self.augment_changes}"
        try:
            policy = self.policy
        except ValueError as error:
            raise ConfigError(f"{changes}: {error}") from None
        if policy.chosen and not policy.among:
            raise ConfigError(
                f"{changes}: --augment={self.augment} has no primitives to choose {policy.chosen}"
                " from; add some, e.g. invert=1"
            )
        if self.augment_engine == "native" and self._not_native:
            raise ConfigError(
                "augment_engine",
                "native",
                f"has no {self._not_native[0]}, which --augment={self.augment} uses;"
                " --augment_engine=auto uses the reference engine",
            )

    @property
    def policy(self) -> operations.Policy:
        """The policy with its changes."""
        return operations.policy_of(self.augment, operations.parse_changes(self.augment_changes))

    @property
    def engine(self) -> str:
        """The engine for `augment.apply`: 'reference' if the native one lacks an operation, else
        --augment_engine.
        """
        return "reference" if self._not_native else self.augment_engine

    @property
    def title(self) -> str:
        """The policy in words, e.g. 'full' or 'full with grey=0'."""
        return (
            f"{self.augment} with {self.augment_changes}" if self.augment_changes else self.augment
        )

    @property
    def _not_native(self) -> list[str]:
        return [operation.name for operation in self.policy.used if not operation.native]


def knows_no_colour(augment: str | None, augment_changes: str | None) -> bool:
    """Returns whether an encoder learned on grey images alone, by these entries of its
    encoder.json; None: unknown.
    """
    return (
        augment in operations.POLICIES
        and AugmentConfig(augment, augment_changes or "").policy.always_grey
    )


def warn_of_colour(encoder: str, augment: str | None, augment_changes: str | None) -> None:
    """Logs a line if an encoder with these entries of its encoder.json knows no colour, for runs
    that show it some.
    """
    if knows_no_colour(augment, augment_changes):
        logging.warning(
            "--encoder=%s: was trained on grey images only, and these images have colours", encoder
        )
