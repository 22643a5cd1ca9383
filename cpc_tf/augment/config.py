"""Settings of the patch augmentation."""

import dataclasses

from cpc_tf.augment import policies
from cpc_tf.settings import ConfigError, Retired, Settings, setting

# Flags of earlier releases -> the entries that each set, and its type.
_FULL = {
    "autoaugment_ops": (policies.CHOSEN, int),
    "autoaugment_shear": ("shear_x.limit shear_y.limit", float),
    "autoaugment_translate": ("translate_x.limit translate_y.limit", float),
    "autoaugment_rotate": ("rotate.limit", float),
    "autoaugment_enhance": ("contrast.spread color.spread brightness.spread sharpness.spread", float),
    "autoaugment_posterize": ("posterize.fewest", int),
    "autoaugment_solarize": ("solarize.lowest", float),
    **{f"{name}_probability": (name, float) for name in ("elastic", "histogram", "distort", "grey")},
    **{f"elastic_{name}": (f"elastic.{name}", float) for name in ("sigma", "shear")},
    **{f"histogram_{name}": (f"histogram.{name}", float) for name in ("shift", "slope")},
    **{f"distort_{name}": (f"distort.{name}", float) for name in ("brightness", "saturation", "hue", "contrast")},
}
_JITTER, _DROP = {"jitter_fraction": ("jitter.margin", float)}, {"drop_probability": ("drop_channels", float)}
# Which of them a policy took notice of.
_NOTICED = {"full": _FULL, "small_patches": _FULL, "v1": _JITTER, "colour_drop": {**_JITTER, **_DROP}}


def _translated(values: dict, retired: dict) -> dict:
    """--augment and --augment_changes that do what flags of earlier releases did.

    Of all ways to write it the shortest is taken, so that an old run's settings equal today's preset's.
    """
    noticed, old = _NOTICED.get(values["augment"], {}), {}
    for flag in noticed.keys() & retired.keys():
        old.update(dict.fromkeys(noticed[flag][0].split(), retired[flag]))
    if not old:
        return {}
    # Through the text, so that a wrong value is refused as one.
    text = ",".join(filter(None, [values["augment_changes"], policies.to_text(old)]))
    name, changes = policies.shortest(AugmentConfig(augment=values["augment"], augment_changes=text).policy)
    return {"augment": name, "augment_changes": policies.to_text(changes)}


@dataclasses.dataclass(frozen=True)
class AugmentConfig(Settings):
    """What is done to each patch on its own: appendix A steps 1-4, and the earlier policies of figure 3."""

    augment: str = setting(
        "full",
        "Policy of the patch augmentation. 'none'; 'v1': CPC v1's jitter and grey; 'colour_drop': jitter and colour "
        "dropping; 'full': appendix A; 'small_patches': appendix A without AutoAugment and grey, and with less hue",
        choices=tuple(policies.POLICIES),
    )
    augment_changes: str = setting(
        "",
        "Changes of entries of the policy --augment, e.g. 'grey=0,distort.hue=0.05': a probability under the name of "
        "its operation, a range under OPERATION.RANGE (docs/augmentation.md lists them)",
    )
    augment_engine: str = setting(
        "auto",
        "Engine of the patch augmentation. 'native': our C++ op; 'reference': TensorFlow, slow; 'auto': native if it "
        "can be built and has all operations of the policy",
        choices=("auto", "reference", "native"),
        free_on_resume=True,
    )

    RETIRED = Retired(
        {flag: kind for flag, (_, kind) in {**_FULL, **_JITTER, **_DROP}.items()}, "augment_changes", _translated
    )

    def check(self):
        try:
            policy = self.policy
        except ValueError as error:
            raise ConfigError(f"--augment_changes={self.augment_changes}: {error}") from None
        if policy.chosen and not policy.among:
            raise ConfigError(
                f"--augment_changes={self.augment_changes}: --augment={self.augment} has no primitives to choose "
                f"{policy.chosen} from; add some, e.g. invert=1"
            )
        if self.augment_engine == "native" and self._reference_only:
            raise ConfigError(
                f"--augment_engine=native: has no {self._reference_only[0]}, which --augment={self.augment} uses; "
                "--augment_engine=auto takes the reference engine"
            )

    @property
    def policy(self) -> policies.Policy:
        """What the policy's name and the changes amount to."""
        return policies.named(self.augment, policies.parse(self.augment_changes))

    @property
    def engine(self) -> str:
        """For `augment.apply`: --augment_engine, but 'reference' where the native engine lacks an operation."""
        return "reference" if self._reference_only else self.augment_engine

    @property
    def title(self) -> str:
        """The policy in words, e.g. 'full' or 'full with grey=0'."""
        return f"{self.augment} with {self.augment_changes}" if self.augment_changes else self.augment

    @property
    def _reference_only(self) -> list[str]:
        return [operation.name for operation in self.policy.used if not operation.native]
