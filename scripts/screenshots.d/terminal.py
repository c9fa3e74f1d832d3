#!/usr/bin/env python3
"""Turn a terminal's screen with its escape sequences (tmux capture-pane -e) into a page that looks like it."""

import html
import re
import sys

# Numbers of the palette of 256 colours, as crossterm writes them: 38;5;N.
COLOURS = {1: "#ff6b6b", 2: "#4cc26a", 3: "#ffb454", 6: "#5fd7ff", 8: "#8a93a0"}

PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: #14171c; }}
pre {{ margin: 13px 16px; color: #e8ebef; font: 19px/19px "DejaVu Sans Mono", monospace; }}
b {{ font-weight: bold; }} i {{ font-style: normal; color: #14171c; background: #e8ebef; }}
</style><pre>{}</pre>
"""


def span(text, style):
    text = html.escape(text)
    if "bold" in style:
        text = f"<b>{text}</b>"
    if "reverse" in style:
        text = f"<i>{text}</i>"
    if style.get("colour") in COLOURS:
        text = f'<span style="color:{COLOURS[style["colour"]]}">{text}</span>'
    return text


def apply(codes, style):
    """Select graphic rendition: the few codes that top uses."""
    codes = iter(codes)
    for code in codes:
        if code == 0:
            style.clear()
        elif code == 1:
            style["bold"] = True
        elif code == 7:
            style["reverse"] = True
        elif code == 39:
            style.pop("colour", None)
        elif code == 38 and next(codes) == 5:
            style["colour"] = next(codes)


def convert(screen):
    parts, style = [], {}
    for piece in re.split(r"(\x1b\[[0-9;]*m)", screen):
        if piece.startswith("\x1b["):
            apply([int(number or 0) for number in piece[2:-1].split(";")], style)
        else:
            parts.append(span(piece, style))
    return "".join(parts)


print(PAGE.format(convert(sys.stdin.read())))
