"""Settings of the patch augmentation."""

import dataclasses

from cpc_tf.augment import policies
from cpc_tf.settings import ConfigError, Retired, Settings, setting

_FACTORS = ("contrast.spread", "color.spread", "brightness.spread", "sharpness.spread")
# Flags of earlier releases -> entries, type, and the policies that took notice of them.
_LATE, _EARLY = ("full", "small_patches"), ("v1", "colour_drop")
_RETIRED = {
    "autoaugment_ops": ((policies.CHOSEN,), int, _LATE),
    "autoaugment_shear": (("shear_x.limit", "shear_y.limit"), float, _LATE),
    "autoaugment_translate": (("translate_x.limit", "translate_y.limit"), float, _LATE),
    "autoaugment_rotate": (("rotate.limit",), float, _LATE),
    "autoaugment_enhance": (_FACTORS, float, _LATE),
    "autoaugment_posterize": (("posterize.fewest",), int, _LATE),
    "autoaugment_solarize": (("solarize.lowest",), float, _LATE),
    "elastic_probability": (("elastic",), float, _LATE),
    "elastic_sigma": (("elastic.sigma",), float, _LATE),
    "elastic_shear": (("elastic.shear",), float, _LATE),
    "histogram_probability": (("histogram",), float, _LATE),
    "histogram_shift": (("histogram.shift",), float, _LATE),
    "histogram_slope": (("histogram.slope",), float, _LATE),
    "distort_probability": (("distort",), float, _LATE),
    "distort_brightness": (("distort.brightness",), float, _LATE),
    "distort_saturation": (("distort.saturation",), float, _LATE),
    "distort_hue": (("distort.hue",), float, _LATE),
    "distort_contrast": (("distort.contrast",), float, _LATE),
    "grey_probability": (("grey",), float, _LATE),
    "jitter_fraction": (("jitter.margin",), float, _EARLY),
    "drop_probability": (("drop_channels",), float, ("colour_drop",)),
}


def _translated(values: dict, retired: dict) -> dict:
    """--augment and --augment_changes that do what flags of earlier releases did.

    Of all ways to write it the shortest is taken, so that an old run's settings equal today's preset's.
    """
    name, old = values["augment"], {}
    for flag, value in retired.items():
        entries, _, noticed = _RETIRED[flag]
        if name in noticed:
            old.update(dict.fromkeys(entries, value))
    # Through the text, so that a wrong value is refused as one.
    text = ",".join(filter(None, [values["augment_changes"], policies.to_text(old)]))
    config = AugmentConfig(augment=name, augment_changes=text)
    if not old:
        return {}
    name, changes = policies.shortest(config.policy)
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

    RETIRED = Retired({flag: kind for flag, (_, kind, _) in _RETIRED.items()}, "augment_changes", _translated)

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
        return policies.Policy(policies.POLICIES[self.augment]).changed(policies.parse(self.augment_changes))

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
