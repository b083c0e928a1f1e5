"""Texts that the demo agent says."""

from typing import Final

MARKDOWN: Final = """\
## A text in Markdown

It has **bold**, *emphasis*, `code in a line` and [a link](https://example.com/).

1. A list with numbers
2. whose second point has points of its own:
   - one
   - two

```python
from dataclasses import dataclass


@dataclass(frozen=True)
class Greeting:
    name: str

    def __str__(self) -> str:
        return f"Hello {self.name}"  # a comment
```

```json
{"answer": 42, "words": ["one", "two"], "known": true}
```

```sh
curl -s http://127.0.0.1:8080/healthz
```

| command | what it does | pieces |
|---|---|---:|
| `count` | counts | many |
| `code` | shows this | 1 |

> A quotation ends it.
"""

RIGHT_TO_LEFT: Final = "שלום עולם, this is English, مرحبا بالعالم 123."
