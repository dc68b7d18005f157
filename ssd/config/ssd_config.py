"""The configuration that all processes share."""

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from ssd.config.sections import (
    ClusterSection,
    CoordinatorSection,
    DrafterSection,
    LoggingSection,
    MetricsSection,
    ModelsSection,
    NgramSection,
    SecuritySection,
    SpeculationSection,
    TimeoutsSection,
    VerifierSection,
)


class SsdConfig(BaseSettings):
    """Every setting of the service, checked and frozen; made by `load_config`."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix="SSD_", env_nested_delimiter="__"
    )

    models: ModelsSection = ModelsSection()
    coordinator: CoordinatorSection = CoordinatorSection()
    verifier: VerifierSection = VerifierSection()
    drafter: DrafterSection = DrafterSection()
    ngram: NgramSection = NgramSection()
    speculation: SpeculationSection = SpeculationSection()
    timeouts: TimeoutsSection = TimeoutsSection()
    cluster: ClusterSection = ClusterSection()
    security: SecuritySection = SecuritySection()
    metrics: MetricsSection = MetricsSection()
    logging: LoggingSection = LoggingSection()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take what we are given and nothing else: `load_config` merges the layers itself, because
        it names the origin of each value and refuses a variable that names no setting."""
        return (init_settings,)
