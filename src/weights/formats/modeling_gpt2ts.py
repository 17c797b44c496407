"""Models of gpt2.ts that are not GPT-2, for transformers: AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True).

For inference, one sequence or several of equal length. The parts are those of src/model/architecture.ts in gpt2.ts; config.json has
their values, and the shape of every tensor. There is no cache of keys and values: each new token computes the whole text.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

LAYERNORM_EPS = 1e-5
RMSNORM_EPS = 2.0**-23


class Gpt2TsConfig(PretrainedConfig):
    model_type = "gpt2_ts"

    def __init__(self, parts=None, tensors=None, **others):
        self.parts = parts or {}
        self.tensors = tensors or {}
        super().__init__(**others)


def rms(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + RMSNORM_EPS)


class Gpt2TsForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = Gpt2TsConfig
    main_input_name = "input_ids"

    def __init__(self, config):
        super().__init__(config)
        for name, shape in config.tensors.items():
            *path, last = name.split(".")
            module = self
            for step in path:
                if step not in module._modules:
                    module.add_module(step, nn.Module())
                module = module._modules[step]
            module.register_parameter(last, nn.Parameter(torch.empty(shape), requires_grad=False))
        self.post_init()

    def _init_weights(self, module):
        """The weights come from the file."""

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, position_ids=None, **_):
        # Passes position_ids on, so that forward refuses them: generate would otherwise drop them.
        return {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}

    def forward(self, input_ids, attention_mask=None, labels=None, use_cache=None, return_dict=None, **others):
        wrong = [name for name, value in others.items() if value is not None and value is not False]
        if wrong:
            raise ValueError(f"the model does not use {', '.join(wrong)}: leave out what is named")
        config, parts, weights = self.config, self.config.parts, dict(self.named_parameters())
        T, layers = input_ids.shape[1], config.num_hidden_layers
        if T > config.max_position_embeddings:
            raise ValueError(f"{T} tokens are over the model's context of {config.max_position_embeddings}")
        if attention_mask is not None and not attention_mask.all():
            raise ValueError("the model takes no padding: give sequences of equal length")

        def norm(x, name):
            weight = weights[f"{name}.weight"]
            if parts["norm"] == "rmsnorm":
                return rms(x) * weight
            return F.layer_norm(x, (x.shape[-1],), weight, weights[f"{name}.bias"], LAYERNORM_EPS)

        def linear(x, name):
            return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

        x = weights["wte.weight"][input_ids]
        if parts["positions"] == "learned":
            x = x + weights["wpe.weight"][:T]
        if parts["embeddingNorm"] == "rmsnorm":
            x = rms(x) * weights["ln_e.weight"]
        embedded, outputs = x, []
        masks = self._masks(input_ids)
        angles = self._angles(T, x)
        for layer in range(layers):
            h = f"h.{layer}"
            if parts["skips"] == "learned":
                a, b, c = weights[f"{h}.stream.weight"]
                mirrored = layers - 1 - layer
                x = a * (x + c * outputs[mirrored] if mirrored < layer else x) + b * embedded
            qkv = linear(norm(x, f"{h}.ln_1"), f"{h}.attn.c_attn")
            x = x + linear(self._attention(qkv, layer, input_ids, weights, masks, angles), f"{h}.attn.c_proj")
            y = linear(norm(x, f"{h}.ln_2"), f"{h}.mlp.c_fc")
            y = F.relu(y).square() if parts["activation"] == "relu2" else F.gelu(y, approximate="tanh")
            x = x + linear(y, f"{h}.mlp.c_proj")
            outputs.append(x)
        x = norm(x, "ln_f")
        if parts["head"] == "untied":
            logits = x @ weights["lm_head.weight"].T + weights["lm_head.bias"]
        else:
            logits = x @ weights["wte.weight"].T
        if parts["softcap"] > 0:
            logits = parts["softcap"] * logits / torch.sqrt(logits.square() + parts["softcap"] ** 2)
        # The softmax of the loss includes the padding rows of an untied head, as in training and eval; the logits leave them out.
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits[..., : config.vocab_size])

    def _attention(self, qkv, layer, input_ids, weights, masks, angles):
        config, parts = self.config, self.config.parts
        B, T, C = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
        q, k, v = qkv.split(C, dim=-1)
        count = parts.get("valueEmbeddings", 0)
        if count > 0:
            own, shared = weights[f"h.{layer}.attn.value.weight"]
            table = layer if layer < count else layer - (config.num_hidden_layers - count)
            v = own * v
            if table in range(count):
                v = v + shared * weights[f"vte.{table}.weight"][input_ids]
        q, k, v = (each.view(B, T, config.num_attention_heads, -1).transpose(1, 2) for each in (q, k, v))
        if parts["queryKeyNorm"] == "rmsnorm":
            q, k = rms(q), rms(k)
        if angles is not None:
            q, k = (self._rotated(each, *angles) for each in (q, k))
        scale = parts["attentionScale"] or 1 / math.sqrt(q.shape[-1])
        is_long = min(layer, config.num_hidden_layers - 1 - layer) % 4 == 0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=masks[0 if is_long else 1], scale=scale)
        return y.transpose(1, 2).reshape(B, T, C)

    def _masks(self, input_ids):
        """Whether a query attends to a key, [B,1,T,T]: in the layers with the long window, and in the others."""
        parts = self.config.parts
        at = torch.arange(input_ids.shape[1], device=input_ids.device)
        causal = at[:, None] >= at
        long = parts.get("window") or len(at)
        short = parts.get("shortWindow") or (math.ceil(long / 2) if parts.get("window") else long)
        same = torch.ones_like(causal)[None]
        if parts["documentMask"]:
            document = (input_ids == parts["endOfText"]).cumsum(1)
            same = document[:, :, None] == document[:, None, :]
        return [(causal & (at[:, None] - at < window) & same)[:, None] for window in (long, short)]

    def _angles(self, T, x):
        """Cosines and sines of each position's angles; None without rotary positions. Half of the pairs do not rotate."""
        if self.config.parts["positions"] != "rotary":
            return None
        pairs = self.config.hidden_size // self.config.num_attention_heads // 2
        rotating = pairs // 2
        base = self.config.parts["rotaryBase"] or 1024
        rates = [base ** -(i / (rotating - 1) if rotating > 1 else 0) for i in range(rotating)]
        rates = torch.tensor(rates + [0.0] * (pairs - rotating), dtype=torch.float64)
        angles = torch.arange(T, dtype=torch.float64)[:, None] * rates
        return angles.cos().to(x), angles.sin().to(x)

    @staticmethod
    def _rotated(x, cos, sin):
        low, high = x.chunk(2, dim=-1)
        return torch.cat((low * cos + high * sin, high * cos - low * sin), dim=-1)
