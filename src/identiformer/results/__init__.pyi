from .schema import SCHEMA_VERSION as SCHEMA_VERSION
from .store import content_hash as content_hash
from .store import open_result as open_result
from .store import save_result as save_result
from .validation import describe as describe
from .validation import package_versions as package_versions
from .validation import validate as validate
