"""The public names. `__init__.py` imports each from here when it is first used."""

from . import (
    equations as equations,
)
from . import (
    figures as figures,
)
from .explorer.explore import (
    explore as explore,
)
from .finetuning.glue import (
    Finetuned as Finetuned,
)
from .finetuning.glue import (
    finetune as finetune,
)
from .measures import (
    ambiguity as ambiguity,
)
from .measures import (
    attention_identifiability as attention_identifiability,
)
from .measures import (
    attention_reading as attention_reading,
)
from .measures import (
    attention_variants as attention_variants,
)
from .measures import (
    certified_share as certified_share,
)
from .measures import (
    effective_attention as effective_attention,
)
from .measures import (
    gradient_times_input as gradient_times_input,
)
from .measures import (
    identify as identify,
)
from .measures import (
    learning_curve as learning_curve,
)
from .measures import (
    sink_effects as sink_effects,
)
from .measures import (
    token_attribution as token_attribution,
)
from .measures import (
    token_identifiability as token_identifiability,
)
from .measures import (
    token_neighbors as token_neighbors,
)
from .measures import (
    token_steps as token_steps,
)
from .measures import (
    token_transfer as token_transfer,
)
from .measures import (
    value_zeroing as value_zeroing,
)
from .models import (
    Model as Model,
)
from .models import (
    load as load,
)
from .models import (
    watch_attention as watch_attention,
)
from .notebook import (
    show as show,
)
from .paper import (
    reproduce as reproduce,
)
from .probes import (
    Method as Method,
)
from .probes import (
    TokenProbe as TokenProbe,
)
from .readings import (
    certify_head as certify_head,
)
from .readings import (
    inspect_trace as inspect_trace,
)
from .readings import (
    read as read,
)
from .results import (
    open_result as open_result,
)
from .results import (
    save_result as save_result,
)
from .runs import (
    Run as Run,
)
from .runs import (
    merge_runs as merge_runs,
)
from .runs import (
    open_run as open_run,
)
from .runs import (
    run as run,
)
from .texts import (
    Example as Example,
)
from .texts import (
    read_corpus as read_corpus,
)
from .texts import (
    read_wikitext as read_wikitext,
)
from .texts import (
    segments as segments,
)
from .texts.tagging import (
    penn_tags as penn_tags,
)
from .tokens import (
    Tokens as Tokens,
)
from .trace import (
    AttentionLayer as AttentionLayer,
)
from .trace import (
    FactoredLayer as FactoredLayer,
)
from .trace import (
    RecordedLayer as RecordedLayer,
)
from .trace import (
    Trace as Trace,
)

__version__: str
