"""What a colour means, in every picture of rounds."""

from ssd.core.rounds import Lookup

INK, GRID, IDLE = "#20262e", "#dde1e6", "#f4f5f7"
USED, UNUSED, HATCH = "#3567ad", "#b9cce6", "#b5bcc5"
VERIFY_COLOURS = {
    Lookup.HIT: "#2f9e77",
    Lookup.MISS_LATE: "#e59b1c",
    Lookup.MISS_KEY: "#cf4640",
    Lookup.MISS_ABSENT: "#7d8794",
    Lookup.LAST: "#7b6fb0",
}
VERIFY_WORDS = {
    Lookup.HIT: "verify, ends in a hit",
    Lookup.MISS_LATE: "in a miss: drafter late",
    Lookup.MISS_KEY: "in a miss: token not foreseen",
    Lookup.MISS_ABSENT: "in a miss: no drafter",
    Lookup.LAST: "with the text's end",
}
