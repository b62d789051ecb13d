"""The Secrets that volumes name for their drivers, as drivers take them."""

from __future__ import annotations

from mooring.errors import NotYet
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.objects.kinds import SECRET
from mooring.kube.objects.meta import SecretReference


class DriverSecrets:
    """Looks them up in an informer's cache."""

    def __init__(self, factory: SharedInformerFactory) -> None:
        self._secrets = factory.informer(SECRET).indexer

    def of(self, ref: SecretReference | None, what: str) -> dict[str, str]:
        """The content of a Secret; nothing when none is named, `NotYet` when it is missing."""
        if ref is None or not ref.name:
            return {}
        found = self._secrets.get_by_key(f"{ref.namespace}/{ref.name}")
        if found is None:
            raise NotYet(what, why=f"there is no Secret '{ref.namespace}/{ref.name}'", next_step="Create it")
        try:
            return {key: value.decode() for key, value in found.data.items()}
        except UnicodeDecodeError:
            why = f"a value of Secret '{ref.namespace}/{ref.name}' is not a text"
        raise NotYet(what, why=why)
