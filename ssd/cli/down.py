"""`ssd down`: remove what a crashed `ssd serve` left on this machine."""

from ssd.cli.options import one_sentence_errors
from ssd.cli.run_dir import run_dir


def down() -> None:
    """Stop every service that was started from this user's account on this machine."""
    from ssd.cluster.local_ray import LocalRay

    with one_sentence_errors():
        folders = sorted(run_dir().iterdir()) if run_dir().is_dir() else []
        found = [each for each in map(LocalRay.from_state, folders) if each is not None]
        for local_ray in found:
            local_ray.stop()
        print(f"stopped {len(found)} service(s)")
