"""Look at a picture made by scripts/screenshots: look.py report|report-dark|top FILE. Exit 1 with the reason if it is not so."""

import sys
from collections import Counter

from PIL import Image

name, path = sys.argv[1:]
picture = Image.open(path).convert("RGB")
width, height = picture.size
pixels = Counter(picture.getdata())
background, most = pixels.most_common(1)[0]
luma = sum(background) / 3
wrong = []


def expect(what, condition):
    if not condition:
        wrong.append(what)


def near(colour, wanted, by=24):
    return all(abs(one - other) <= by for one, other in zip(colour, wanted))


def share(wanted):
    return sum(count for colour, count in pixels.items() if near(colour, wanted)) / (width * height)


expect(f"a background of one colour covers {most / (width * height):.0%}", most > 0.3 * width * height)
if name == "report":
    expect(f"light background, not {background}", luma > 230)
    ink = sum(count for colour, count in pixels.items() if sum(colour) / 3 < 90 and not near(colour, (66, 105, 208), 60))
else:
    expect(f"dark background, not {background}", luma < 50)
    ink = sum(count for colour, count in pixels.items() if sum(colour) / 3 > 170)
expect(f"text that stands out: {ink} pixels", ink > 2000)
if name.startswith("report"):
    # The first program's area, the line of the tmpfs's size, the marks of the warnings.
    expect(f"the program's area covers {share((66, 105, 208)):.1%}", share((66, 105, 208)) > 0.03)
    size, mark = ((196, 36, 43), (179, 89, 0)) if name == "report" else ((255, 107, 107), (255, 180, 84))
    expect("the line of the size", share(size) > 0.0005)
    expect("the mark of a warning", share(mark) > 0.0001)
else:
    # The gauge beyond its budget or warning, and the history.
    expect("the gauge in its colour", share((255, 107, 107)) + share((255, 180, 84)) > 0.001)
    expect("the history", share((95, 215, 255)) > 0.01)
for line in wrong:
    print(f"{path}: expected: {line}")
sys.exit(bool(wrong))
