"""The public names. `__init__.py` imports each from here when it is first used."""

from . import equations as equations, figures as figures, nn as nn
from .explorer.explore import explore as explore
from .finetuning.glue import Finetuned as Finetuned, finetune as finetune
from .finetuning.variants import train_variants as train_variants
from .measures import (
    ambiguity as ambiguity,
    attention_identifiability as attention_identifiability,
    attention_patterns as attention_patterns,
    attention_reading as attention_reading,
    attention_variants as attention_variants,
    certified_share as certified_share,
    certify_head as certify_head,
    effective_attention as effective_attention,
    gradient_times_input as gradient_times_input,
    identify as identify,
    idle_attention as idle_attention,
    learning_curve as learning_curve,
    recover_prompt as recover_prompt,
    move_weight as move_weight,
    sink_effects as sink_effects,
    strongest_weights as strongest_weights,
    token_attribution as token_attribution,
    token_identifiability as token_identifiability,
    token_neighbors as token_neighbors,
    token_steps as token_steps,
    token_transfer as token_transfer,
    value_parts as value_parts,
    value_zeroing as value_zeroing,
    weight_effects as weight_effects,
)
from .measures.contest import faithfulness as faithfulness
from .measures.maps.answer import answer_attribution as answer_attribution
from .measures.maps.compute import maps as maps
from .models import (
    Answer as Answer,
    Model as Model,
    Picture as Picture,
    load as load,
    open_picture as open_picture,
    watch_attention as watch_attention,
)
from .notebook import show as show
from .paper import reproduce as reproduce, reproduce_papers as reproduce_papers
from .probes import Method as Method, TokenProbe as TokenProbe
from .passage import Passage as Passage
from .readings import read as read
from .results import open_result as open_result, save_result as save_result
from .runs import Run as Run, compare as compare, merge_runs as merge_runs, open_run as open_run, run as run
from .texts import Example as Example, read_corpus as read_corpus, read_wikitext as read_wikitext, segments as segments
from .texts.tagging import penn_tags as penn_tags
from .tokens import Tokens as Tokens
from .trace import (
    AttentionLayer as AttentionLayer,
    FactoredLayer as FactoredLayer,
    RecordedLayer as RecordedLayer,
    Trace as Trace,
)

__version__: str
