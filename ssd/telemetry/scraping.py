"""Reading what a process tells Prometheus."""

import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer of one process: samples by name and labels."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels, whatever others they have."""
        wanted = frozenset(labels.items())
        return sum(
            value for (each, has), value in self.samples.items() if each == name and wanted <= has
        )

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


def read_page(address: str, page: str) -> bytes:
    with urllib.request.urlopen(f"http://{address}{page}", timeout=_TIMEOUT_S) as answer:
        return bytes(answer.read())


def scrape(address: str) -> Scrape:
    families = text_string_to_metric_families(read_page(address, "/metrics").decode())
    return Scrape(
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
    )
