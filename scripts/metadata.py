"""What the build writes about the project: README as the package page, with links that lead somewhere from there.

``PROJECT_URL=https://... python -m build`` names the repository's address: the links of the project, and the beginning
of what README links by paths of its own. Without it, as in a clone, they stay as they are written.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}


class ProjectPage(MetadataHookInterface):
    """Fills in ``readme`` and ``urls``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Write both into the metadata; raises ``ValueError`` for an address that is none."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = os.environ.get("PROJECT_URL", "").rstrip("/")
        if address and not address.startswith("https://"):
            raise ValueError(f"PROJECT_URL must begin with https://, not {address!r}")
        if address:
            readme = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{address}/raw/HEAD/", readme)
            readme = re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{address}/blob/HEAD/", readme)
            pages = {name: f"{address}/blob/HEAD/{page}" for name, page in PAGES.items()}
            metadata["urls"] = {"Source": address, **pages}
        else:
            metadata["urls"] = {}
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
