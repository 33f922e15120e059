"""The transformer as it was first published: an encoder that reads, a decoder that writes.

Both are the course's one `Transformer`; the decoder also attends to what the encoder has read
(Vaswani et al. 2017). `translation_loss` of `seq2seq` serves it, too.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attnlib.models.evaluation import evaluating
from attnlib.models.seq2seq import EncoderOutput, names_of
from attnlib.models.transformer import Edits, Transformer, TransformerConfig
from attnlib.tokenizers.words import Vocabulary, padding_mask
from attnlib.trace import Trace


class TranslatorTrace(NamedTuple):
    """Where a translator looked: three maps for each of its layers and heads.

    Attributes:
        encoder: source tokens to source tokens.
        decoder: written tokens to written tokens, from <s> on.
        cross: written tokens to source tokens.
    """

    encoder: Trace
    decoder: Trace
    cross: Trace


class Translator(nn.Module):
    """An encoder over the source and a decoder that attends to it.

    Args:
        source_size, target_size: tokens known on either side.
        settings: of both `TransformerConfig`s, the rest of which follows from their parts.
    """

    def __init__(self, source_size: int, target_size: int, **settings: object) -> None:
        super().__init__()
        config = replace(TransformerConfig(source_size), **settings)  # type: ignore[arg-type]
        self.encoder = Transformer(replace(config, causal=False, head=False))
        self.decoder = Transformer(replace(config, vocab_size=target_size, cross=True))

    def encoder_output(self, source: Tensor, edits: Edits | None = None) -> EncoderOutput:
        """Read the source (B, S), padded at the end with 0; edits are of the encoder.

        Raises:
            ValueError: if a row is empty or has padding before its end.
        """
        mask = padding_mask(source)
        if not mask.any(1).all():
            raise ValueError("every source row needs a token")
        states = self.encoder(source, mask, edits=edits)
        return EncoderOutput(states, mask, states[:, 0])

    def initial_state(self, encoded: EncoderOutput) -> Tensor:
        """What is written before the first token: nothing, (B, 0)."""
        device = encoded.states.device
        return torch.zeros(len(encoded.states), 0, dtype=torch.int64, device=device)

    def step(
        self, written: Tensor, previous: Tensor, encoded: EncoderOutput
    ) -> tuple[Tensor, Tensor, None]:
        """Produce one token, reading all that is written anew.

        Args:
            written: ids before the previous one, (B, i − 1).
            previous: ids of token i − 1, (B,).
            encoded: the encoded source.

        Returns:
            what is written now (B, i), logits of token i (B, D), and None.
        """
        written = torch.cat([written, previous[:, None]], 1)
        logits = self.decoder(written, memory=(encoded.states, encoded.mask))
        return written, logits[:, -1], None

    def forward(
        self, source: Tensor, target: Tensor, edits: tuple[Edits, Edits] = ({}, {})
    ) -> Tensor:
        """Logits (B, T, D) of what follows each token of a target (B, T) that starts with <s>.

        Edits are those of the encoder and those of the decoder.
        """
        of_encoder, of_decoder = edits
        encoded = self.encoder_output(source, of_encoder)
        memory = encoded.states, encoded.mask
        logits: Tensor = self.decoder(target, memory=memory, edits=of_decoder)
        return logits

    @torch.no_grad()
    def trace(
        self,
        source: Tensor,
        target: Tensor,
        vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    ) -> TranslatorTrace:
        """Who looked where while one target was written; without dropout, whatever the mode.

        Args:
            source: ids (S,).
            target: ids (T + 1,) from <s> on.
            vocabularies: of source and target, to name the tokens.

        Returns:
            three traces; row i of those of the decoder is the token that was read when token
            i + 1 was written, so rows are named from <s> on, up to the last token but one.
        """
        source_words, target_words = vocabularies or (None, None)
        sources = names_of(source, source_words)
        tokens = names_of(target[:-1], target_words)
        with evaluating(self):
            encoded = self.encoder_output(source[None])
            x = self.decoder.embed(target[None, :-1])
            memory = encoded.states, encoded.mask
            states = list(self.decoder.run(x, need_weights=True, memory=memory))
        own = [state.pattern for state in states if state.pattern is not None]
        cross = [state.cross_pattern for state in states if state.cross_pattern is not None]
        return TranslatorTrace(
            encoder=self.encoder.trace(source, sources),
            decoder=Trace(tokens, torch.cat(own)),
            cross=Trace(tokens, torch.cat(cross), sources),
        )
