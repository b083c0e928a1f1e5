"""The demo agent with more commands, so that a test decides when a run begins or ends, on a machine of any speed.
`until FILE` counts until that file exists. `after FILE COMMAND ARGUMENTS` begins the command then. `steps FILE` stays
at its first step until then. `data JSON` asks by data only, `raise TEXT` crashes, and `usage N` reports N input tokens.
`images FILE` makes an image before and after a call of a tool, and waits for the file."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from taskplane.agents.agent import (
    ArtifactChunk,
    AskInput,
    Change,
    Complete,
    Say,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    Working,
)
from taskplane.agents.changes import data_message
from taskplane.agents.demo import COMMANDS, Demo

AGENT: Final = "gated=tests.page.gated:Gated"
STEP: Final = 0.03
IMAGE: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAAAgCAIAAAAt/+nTAAAO4ElEQVR42g3P0cb6DADA4e/C/pIkSTKZTCaTyWQymUwmk8lkMplMJpPJZDKZ"
    "TDrYQQe/gy7qe587eP7jn0BDoCnQEmgLdAS6Aj2BvsBAQBAYCogCIwFJYCwgC0wEFIGpgCowE9AE5gK6wELAEFgKmAIrAUtgLWALbAQcga2A"
    "K7AT8AT2Ar7AQSAQOAqEAieBSOAsEAtcBBKBq0AqcBPIBO4CucBDoBB4CpQCL4FK4C38xz+RhkhTpCXSFumIdEV6In2RgYggMhQRRUYikshY"
    "RBaZiCgiUxFVZCaiicxFdJGFiCGyFDFFViKWyFrEFtmIOCJbEVdkJ+KJ7EV8kYNIIHIUCUVOIpHIWSQWuYgkIleRVOQmkoncRXKRh0gh8hQp"
    "RV4ilchb/AtINCSaEi2JtkRHoivRk+hLDCQEiaGEKDGSkCTGErLEREKRmEqoEjMJTWIuoUssJAyJpYQpsZKwJNYStsRGwpHYSrgSOwlPYi/h"
    "SxwkAomjRChxkogkzhKxxEUikbhKpBI3iUziLpFLPCQKiadEKfGSqCTe0l9ApiHTlGnJtGU6Ml2ZnkxfZiAjyAxlRJmRjCQzlpFlJjKKzFRG"
    "lZnJaDJzGV1mIWPILGVMmZWMJbOWsWU2Mo7MVsaV2cl4MnsZX+YgE8gcZUKZk0wkc5aJZS4yicxVJpW5yWQyd5lc5iFTyDxlSpmXTCXzlv8C"
    "Cg2FpkJLoa3QUegq9BT6CgMFQWGoICqMFCSFsYKsMFFQFKYKqsJMQVOYK+gKCwVDYalgKqwULIW1gq2wUXAUtgquwk7BU9gr+AoHhUDhqBAq"
    "nBQihbNCrHBRSBSuCqnCTSFTuCvkCg+FQuGpUCq8FCqFt/IXUGmoNFVaKm2VjkpXpafSVxmoCCpDFVFlpCKpjFVklYmKojJVUVVmKprKXEVX"
    "WagYKksVU2WlYqmsVWyVjYqjslVxVXYqnspexVc5qAQqR5VQ5aQSqZxVYpWLSqJyVUlVbiqZyl0lV3moFCpPlVLlpVKpvNW/gEZDo6nR0mhr"
    "dDS6Gj2NvsZAQ9AYaogaIw1JY6wha0w0FI2phqox09A05hq6xkLD0FhqmBorDUtjrWFrbDQcja2Gq7HT8DT2Gr7GQSPQOGqEGieNSOOsEWtc"
    "NBKNq0aqcdPINO4aucZDo9B4apQaL41K4639BXQaOk2dlk5bp6PT1enp9HUGOoLOUEfUGelIOmMdWWeio+hMdVSdmY6mM9fRdRY6hs5Sx9RZ"
    "6Vg6ax1bZ6Pj6Gx1XJ2djqez1/F1DjqBzlEn1DnpRDpnnVjnopPoXHVSnZtOpnPXyXUeOoXOU6fUeelUOm/9L2DQMGgatAzaBh2DrkHPoG8w"
    "MBAMhgaiwchAMhgbyAYTA8VgaqAazAw0g7mBbrAwMAyWBqbBysAyWBvYBhsDx2Br4BrsDDyDvYFvcDAIDI4GocHJIDI4G8QGF4PE4GqQGtwM"
    "MoO7QW7wMCgMngalwcugMngbfwGThknTpGXSNumYdE16Jn2TgYlgMjQRTUYmksnYRDaZmCgmUxPVZGaimcxNdJOFiWGyNDFNViaWydrENtmY"
    "OCZbE9dkZ+KZ7E18k4NJYHI0CU1OJpHJ2SQ2uZgkJleT1ORmkpncTXKTh0lh8jQpTV4mlcnb/AtYNCyaFi2LtkXHomvRs+hbDCwEi6GFaDGy"
    "kCzGFrLFxEKxmFqoFjMLzWJuoVssLAyLpYVpsbKwLNYWtsXGwrHYWrgWOwvPYm/hWxwsAoujRWhxsogszhaxxcUisbhapBY3i8zibpFbPCwK"
    "i6dFafGyqCze1l/ApmHTtGnZtG06Nl2bnk3fZmAj2AxtRJuRjWQztpFtJjaKzdRGtZnZaDZzG91mYWPYLG1Mm5WNZbO2sW02No7N1sa12dl4"
    "Nnsb3+ZgE9gcbUKbk01kc7aJbS42ic3VJrW52WQ2d5vc5mFT2DxtSpuXTWXztv8CDg2HpkPLoe3Qceg69Bz6DgMHwWHoIDqMHCSHsYPsMHFQ"
    "HKYOqsPMQXOYO+gOCwfDYelgOqwcLIe1g+2wcXActg6uw87Bc9g7+A4Hh8Dh6BA6nBwih7ND7HBxSByuDqnDzSFzuDvkDg+HwuHpUDq8HCqH"
    "t/MXcGm4NF1aLm2XjkvXpefSdxm4CC5DF9Fl5CK5jF1kl4mL4jJ1UV1mLprL3EV3WbgYLksX02XlYrmsXWyXjYvjsnVxXXYunsvexXc5uAQu"
    "R5fQ5eQSuZxdYpeLS+JydUldbi6Zy90ld3m4FC5Pl9Ll5VK5vN2/gEfDo+nR8mh7dDy6Hj2PvsfAQ/AYeogeIw/JY+whe0w8FI+ph+ox89A8"
    "5h66x8LD8Fh6mB4rD8tj7WF7bDwcj62H67Hz8Dz2Hr7HwSPwOHqEHiePyOPsEXtcPBKPq0fqcfPIPO4eucfDo/B4epQeL4/K4+39BXwaPk2f"
    "lk/bp+PT9en59H0GPoLP0Ef0GflIPmMf2Wfio/hMfVSfmY/mM/fRfRY+hs/Sx/RZ+Vg+ax/bZ+Pj+Gx9XJ+dj+ez9/F9Dj6Bz9En9Dn5RD5n"
    "n9jn4pP4XH1Sn5tP5nP3yX0ePoXP06f0eflUPm//LxDQCGgGtALaAZ2AbkAvoB8wCBAChgFiwChAChgHyAGTACVgGqAGzAK0gHmAHrAIMAKW"
    "AWbAKsAKWAfYAZsAJ2Ab4AbsAryAfYAfcAgIAo4BYcApIAo4B8QBl4Ak4BqQBtwCsoB7QB7wCCgCngFlwCugCngHf4GQRkgzpBXSDumEdEN6"
    "If2QQYgQMgwRQ0YhUsg4RA6ZhCgh0xA1ZBaihcxD9JBFiBGyDDFDViFWyDrEDtmEOCHbEDdkF+KF7EP8kENIEHIMCUNOIVHIOSQOuYQkIdeQ"
    "NOQWkoXcQ/KQR0gR8gwpQ14hVcg7/AtENCKaEa2IdkQnohvRi+hHDCKEiGGEGDGKkCLGEXLEJEKJmEaoEbMILWIeoUcsIoyIZYQZsYqwItYR"
    "dsQmwonYRrgRuwgvYh/hRxwigohjRBhxiogizhFxxCUiibhGpBG3iCziHpFHPCKKiGdEGfGKqCLe0V8gphHTjGnFtGM6Md2YXkw/ZhAjxAxj"
    "xJhRjBQzjpFjJjFKzDRGjZnFaDHzGD1mEWPELGPMmFWMFbOOsWM2MU7MNsaN2cV4MfsYP+YQE8QcY8KYU0wUc46JYy4xScw1Jo25xWQx95g8"
    "5hFTxDxjyphXTBXzjv8CCY2EZkIroZ3QSegm9BL6CYMEIWGYICaMEqSEcYKcMElQEqYJasIsQUuYJ+gJiwQjYZlgJqwSrIR1gp2wSXAStglu"
    "wi7BS9gn+AmHhCDhmBAmnBKihHNCnHBJSBKuCWnCLSFLuCfkCY+EIuGZUCa8EqqEd/IXSGmkNFNaKe2UTko3pZfSTxmkCCnDFDFllCKljFPk"
    "lEmKkjJNUVNmKVrKPEVPWaQYKcsUM2WVYqWsU+yUTYqTsk1xU3YpXso+xU85pAQpx5Qw5ZQSpZxT4pRLSpJyTUlTbilZyj0lT3mkFCnPlDLl"
    "lVKlvNO/QEYjo5nRymhndDK6Gb2MfsYgQ8gYZogZowwpY5whZ0wylIxphpoxy9Ay5hl6xiLDyFhmmBmrDCtjnWFnbDKcjG2Gm7HL8DL2GX7G"
    "ISPIOGaEGaeMKOOcEWdcMpKMa0aaccvIMu4ZecYjo8h4ZpQZr4wq4539BXIaOc2cVk47p5PTzenl9HMGOULOMEfMGeVIOeMcOWeSo+RMc9Sc"
    "WY6WM8/RcxY5Rs4yx8xZ5Vg56xw7Z5Pj5Gxz3Jxdjpezz/FzDjlBzjEnzDnlRDnnnDjnkpPkXHPSnFtOlnPPyXMeOUXOM6fMeeVUOe/8L1DQ"
    "KGgWtAraBZ2CbkGvoF8wKBAKhgViwahAKhgXyAWTAqVgWqAWzAq0gnmBXrAoMAqWBWbBqsAqWBfYBZsCp2Bb4BbsCryCfYFfcCgICo4FYcGp"
    "ICo4F8QFl4Kk4FqQFtwKsoJ7QV7wKCgKngVlwaugKngXf4GSRkmzpFXSLumUdEt6Jf2SQYlQMiwRS0YlUsm4RC6ZlCgl0xK1ZFailcxL9JJF"
    "iVGyLDFLViVWybrELtmUOCXbErdkV+KV7Ev8kkNJUHIsCUtOJVHJuSQuuZQkJdeStORWkpXcS/KSR0lR8iwpS14lVcm7/AtUNCqaFa2KdkWn"
    "olvRq+hXDCqEimGFWDGqkCrGFXLFpEKpmFaoFbMKrWJeoVcsKoyKZYVZsaqwKtYVdsWmwqnYVrgVuwqvYl/hVxwqgopjRVhxqogqzhVxxaUi"
    "qbhWpBW3iqziXpFXPCqKimdFWfGqqCre1V/gQ+ND80PrQ/tD50P3Q+9D/8Pgg/Bh+EH8MPogfRh/kD9MPigfph/UD7MP2of5B/3D4oPxYfnB"
    "/LD6YH1Yf7A/bD44H7Yf3A+7D96H/Qf/w+FD8OH4Ifxw+hB9OH+IP1w+JB+uH9IPtw/Zh/uH/MPjQ/Hh+aH88PpQfXh//gI1jZpmTaumXdOp"
    "6db0avo1gxqhZlgj1oxqpJpxjVwzqVFqpjVqzaxGq5nX6DWLGqNmWWPWrGqsmnWNXbOpcWq2NW7Nrsar2df4NYeaoOZYE9acaqKac01cc6lJ"
    "aq41ac2tJqu51+Q1j5qi5llT1rxqqpp3/Rf40vjS/NL60v7S+dL90vvS/zL4InwZfhG/jL5IX8Zf5C+TL8qX6Rf1y+yL9mX+Rf+y+GJ8WX4x"
    "v6y+WF/WX+wvmy/Ol+0X98vui/dl/8X/cvgSfDl+Cb+cvkRfzl/iL5cvyZfrl/TL7Uv25f4l//L4Unx5fim/vL5UX97fvwA0oAktaEMHutCD"
    "PgxAgCGIMAIJxiDDBBSYggoz0GAOOizAgCWYsAIL1mDDBhzYggs78GAPPhwggCOEcIIIzhDDBRK4Qgo3yOAOOTyggCeU8IIK3vwFfjR+NH+0"
    "frR/dH50f/R+9H8Mfgg/hj/EH6Mf0o/xD/nH5IfyY/pD/TH7of2Y/9B/LH4YP5Y/zB+rH9aP9Q/7x+aH82P7w/2x++H92P/wfxx+BD+OP8If"
    "px/Rj/OP+MflR/Lj+iP9cfuR/bj/yH88fhQ/nj/KH68f1Y/373+NxYjTh5NSbgAAAABJRU5ErkJggg=="
)
DOCUMENT: Final = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script><circle r="9"/></svg>'


@dataclass(frozen=True)
class Gate:
    """A file that a run waits for. As text it is the message that begins such a run."""

    file: Path

    def __str__(self) -> str:
        return f"until {self.file}"

    def open(self) -> None:
        """Lets the waiting run end."""
        self.file.touch()

    @property
    def is_open(self) -> bool:
        return self.file.exists()


class Gated(Demo):
    """The demo agent with the commands of this module."""

    def run(self, turn: Turn) -> AsyncIterator[Change]:
        command, _, rest = turn.text.partition(" ")
        if command == "until":
            return until(Gate(Path(rest)))
        if command == "steps":
            return steps(Gate(Path(rest)))
        if command == "usage":
            return using(int(rest))
        if command == "images":
            return images(Gate(Path(rest)))
        if command == "raise":
            raise RuntimeError(rest)
        if command == "data":
            return asking(json.loads(rest))
        if command == "after":
            file, name, arguments = rest.split(" ", 2)
            return after(Gate(Path(file)), COMMANDS[name].run(name, arguments))
        return super().run(turn)


async def using(tokens: int) -> AsyncIterator[Change]:
    """Reports its usage, and ends."""
    yield Usage({"input_tokens": tokens})
    yield Complete("done")


async def images(gate: Gate) -> AsyncIterator[Change]:
    """Makes an image between two sentences, and one in two pieces between a call of a tool and its result; also an SVG
    document and invalid image bytes. Yields the last word once the gate is open."""
    half = len(IMAGE) // 2
    yield Say("Here it is:")
    yield ArtifactChunk("one", raw=IMAGE, name="Dot", media_type="image/png", last=True)
    yield ToolCall("call", "draw", {"colour": "red"})
    yield ArtifactChunk("two", raw=IMAGE[:half], name="Halves", media_type="image/png", mergeable=False)
    yield ArtifactChunk("two", raw=IMAGE[half:], append=True, last=True, mergeable=False)
    yield ToolResult("call", "draw", {"done": True})
    yield Text("And more")
    yield ArtifactChunk("three", raw=DOCUMENT, name="Drawing", media_type="image/svg+xml", last=True)
    yield ArtifactChunk("four", raw=b"nothing", name="Broken", media_type="image/png", last=True)
    while not gate.is_open:
        await asyncio.sleep(STEP)
    yield Text(" of it.")
    yield Complete("And more of it.")


async def asking(data: Any) -> AsyncIterator[Change]:
    """Asks with a message that has only data."""
    yield AskInput(data_message(data))


async def until(gate: Gate) -> AsyncIterator[Change]:
    """Counts until the gate is open, and completes with all the numbers."""
    words: list[str] = []
    while not gate.is_open:
        words.append(f"{len(words) + 1} ")
        yield Text(words[-1])
        await asyncio.sleep(STEP)
    yield Complete("".join(words).rstrip() or "0")


async def steps(gate: Gate) -> AsyncIterator[Change]:
    """Reports the first step, and stays there until the gate is open."""
    yield Working("Step 1 of 2")
    while not gate.is_open:
        await asyncio.sleep(STEP)
    yield Complete("Both steps are done.")


async def after(gate: Gate, then: AsyncIterator[Change]) -> AsyncIterator[Change]:
    """Yields "Ready. ", and runs another command once the gate is open."""
    yield Text("Ready. ")
    while not gate.is_open:
        await asyncio.sleep(STEP)
    async for change in then:
        yield change
