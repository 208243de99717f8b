"""Chat templates in the shapes that language models have."""

_TURNS = "{% for m in messages %}"
_SYSTEM_FIRST = (
    "{% set ns = namespace(system='') %}{% if messages[0].role == 'system' %}{% set ns.system = messages[0].content %}"
)

INSERTING = {
    "words": "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}w9 ",
    "default system message": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are a helpful AI assistant<|im_end|>\n{% endif %}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    "trimmed": (
        "{{ bos_token }}{% for m in messages %}<|start|>{{ m.role }}<|end|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}"
        "<|start|>assistant<|end|>\n\n"
    ),
    "system in the user's turn": (
        _SYSTEM_FIRST + "{% set messages = messages[1:] %}{% endif %}" + _TURNS + "{% if m.role == 'user' %}[INST] "
        "{% if loop.first and ns.system %}<<SYS>>\n{{ ns.system.strip() }}\n<</SYS>>\n\n{% endif %}{{ m.content }} [/INST]"
        "{% else %} {{ m.content }} </s>{% endif %}{% endfor %}"
    ),
    "system as a paragraph of the user": (
        _SYSTEM_FIRST
        + "{% set messages = messages[1:] %}{% endif %}"
        + _TURNS
        + "<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ ns.system + '\n\n' if loop.first and ns.system else '' }}{{ m['content'].strip() }}</turn>\n{% endfor %}<turn>model\n"
    ),
    "without system messages": _TURNS
    + "{% if m.role != 'system' %}### {{ m.role | upper }}:\n{{ m.content }}\n{% endif %}{% endfor %}### A:",
    "a message twice": _TURNS + "{{ m.role }}: {{ m.content }}\n{% endfor %}Answer again: {{ messages[-1].content }}\n",
    "generation and loop controls": (
        _TURNS + "{% if not m.content %}{% continue %}{% endif %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{% else %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endif %}{% endfor %}"
    ),
    "the last first": "{% for m in messages | reverse %}{{ m.role | tojson }}={{ m.content }};{% endfor %}",
}
"""These insert each message as it is, apart from the white space around it."""

CHANGING = {
    "upper case": _TURNS + "{{ m.role }}: {{ m.content | upper }}\n{% endfor %}",
    "its length": _TURNS + "{{ m.role }} ({{ m.content | length }}): {{ m.content }}\n{% endfor %}",
    "its first word": _TURNS + "{{ m.role }}: {{ m.content.split()[0] }}\n{% endfor %}",
    "depending on it": _TURNS + "{{ m.role }}: {{ 'yes: ' if 'a' in m.content else 'no: ' }}{{ m.content }}\n{% endfor %}",
    "rejecting others": (
        _TURNS
        + "{% if 'a' not in m.content %}{{ raise_exception('No a.') }}{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    ),
}
"""What these write around a message, or in its place, depends on the message."""
