"""Scrolling the conversation, and measuring the time of the browser for it."""

from dataclasses import dataclass
from typing import Any, Final

from tests.page.app import App

# The element that scrolls: the log, or an element around it.
_BOX: Final = """
    const box = (() => {
        for (let one = document.querySelector("[role=log]"); one; one = one.parentElement)
            if (/auto|scroll/.test(getComputedStyle(one).overflowY)) return one;
        return document.scrollingElement;
    })();
"""


@dataclass(frozen=True)
class Frames:
    """Milliseconds between frames during a movement, and of the longest task of the page in that time."""

    p50: float
    p95: float
    longest_task: float


async def scroll(app: App, top: float) -> None:
    """Scrolls as a wheel does, and returns when the frame is drawn. A negative position counts from the end."""
    await app.page.evaluate(
        f"""async top => {{ {_BOX}
            box.scrollTop = top >= 0 ? top : box.scrollHeight - box.clientHeight + top;
            for (let frames = 0; frames < 3; frames++) await new Promise(requestAnimationFrame);
        }}""",
        top,
    )


async def place(app: App) -> tuple[float, float]:
    """The scroll position of the conversation, and the distance of its end."""
    found: Any = await app.page.evaluate(
        f"() => {{ {_BOX} return [box.scrollTop, box.scrollHeight - box.clientHeight - box.scrollTop]; }}"
    )
    return found[0], found[1]


async def swept(app: App, steps: int, by: float) -> Frames:
    """Scrolls `steps` times by this number of pixels, once a frame, and measures."""
    found: Any = await app.page.evaluate(
        f"""async ([steps, by]) => {{ {_BOX}
            const frames = []; let longest = 0;
            const tasks = new PerformanceObserver((list) => {{
                for (const one of list.getEntries()) longest = Math.max(longest, one.duration);
            }});
            tasks.observe({{ entryTypes: ["longtask"] }});
            const frame = () => new Promise(requestAnimationFrame);
            let before = await frame();
            for (let step = 0; step < steps; step++) {{
                box.scrollTop += by;
                const now = await frame();
                frames.push(now - before);
                before = now;
            }}
            tasks.disconnect();
            frames.sort((one, other) => one - other);
            const at = (share) => frames[Math.floor((frames.length - 1) * share)];
            return [at(0.5), at(0.95), longest];
        }}""",
        [steps, by],
    )
    return Frames(*found)


async def nodes(app: App) -> int:
    """The number of elements of the page."""
    found: int = await app.page.evaluate("document.querySelectorAll('*').length")
    return found
