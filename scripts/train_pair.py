"""Build one of the repository's model pairs from a seed:

python scripts/train_pair.py tales --out models --seed 1 --minutes 40
"""

import sys
from pathlib import Path

# Run as a file, a script sees only its own folder; its parts are imported as `scripts.*`.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.pair_build import main

if __name__ == "__main__":
    main()
