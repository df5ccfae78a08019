"""sentence-transformers' own trainer, stopped and continued: a segment of the schedule is one call of `train_to`.

Each call ends with a checkpoint, and each except the first starts from one, so that a resumed run does the same as a
run that was never killed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from foolsgold.errors import TrainingError
from foolsgold.models.describe import own_prompt
from foolsgold.models.torch_model import without_bars
from foolsgold.progress import SILENT, Progress
from foolsgold.recipe import Recipe, StudentSpec
from foolsgold.training import adapters, memory_bank
from foolsgold.training.checkpoints import ARGUMENTS, STATE, Checkpoints
from foolsgold.training.launch import are_several
from foolsgold.training.memory_bank import MemoryBankLoss
from foolsgold.training.rows import TrainingRows

log = logging.getLogger(__name__)

_CURVE = 200  # points of the loss curve, about
_LONG = 86_400  # seconds that other processes wait while one mines

_TRANSFORMER_RATE, _ADAPTER_RATE, _STATIC_RATE = 2e-5, 2e-4, 3e-3


class SegmentTrainer:
    """Trains a student on rows up to a given step, as often as asked.

    epochs: of the whole schedule, which the learning rate falls over. folder: where checkpoints go.
    """

    def __init__(
        self,
        recipe: Recipe,
        student: SentenceTransformer,
        loss: torch.nn.Module,
        rows: TrainingRows,
        batch_sampler: Any,
        *,
        epochs: float,
        folder: Path,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> None:
        self._bank = loss.bank if isinstance(loss, MemoryBankLoss) else None
        self._checkpoints = Checkpoints(folder, STATE if self._bank is None else memory_bank.FILE)
        self.rows = rows
        spec = recipe.student
        arguments = _arguments(spec, student, recipe.training_seed, folder)
        arguments.batch_sampler = batch_sampler
        arguments.prompts = rows.prompts(own_prompt(student.prompts, "query"), own_prompt(student.prompts, "document"))
        self._pause = _Pause(rows, self._checkpoints, spec.checkpoint_every)
        self._trainer = _Trainer(
            model=student,
            args=arguments,
            train_dataset=rows.dataset,
            loss=loss,
            callbacks=[*callbacks, self._pause],  # it deletes older checkpoints when the others have written theirs
        )
        self._trainer.trains_adapters = spec.lora is not None
        self._trainer.remove_callback(PrinterCallback)  # progress and the report show it
        batches = len(self._trainer.get_train_dataloader())
        if batches == 0:
            raise TrainingError(
                f"{len(rows):,} rows are fewer than one batch of {spec.batch_size}; set student.batch_size lower"
            )
        self._warn_if_small(batches, spec)
        if self.is_main:
            self._checkpoints.repair()
        self.wait_for_everyone()
        self.steps_per_epoch = math.ceil(batches / spec.gradient_accumulation)
        self.total_steps = max(1, round(self.steps_per_epoch * epochs))
        self._pause.steps_per_epoch = self.steps_per_epoch
        arguments.max_steps = self.total_steps
        arguments.warmup_steps = round(spec.warmup * self.total_steps)
        arguments.logging_steps = max(1, self.total_steps // _CURVE)

    def _warn_if_small(self, batches: int, spec: StudentSpec) -> None:
        """Many queries with one positive, which must not meet in a batch, make all batches many and small."""
        fewest = math.ceil(len(self.rows) / (spec.batch_size * self._trainer.accelerator.num_processes))
        if batches > 2 * fewest:
            counts = np.bincount(self.rows.positive_rows)
            doc = self.rows.collection.documents.take_ids([int(counts.argmax())])[0]
            log.warning(
                "an epoch has %s batches of about %s rows instead of %s of %s: rows whose queries share a positive "
                "never meet in a batch, and %s have document %s; with student.batches: random they may meet, and masks "
                "keep them from being each other's negatives",
                f"{batches:,}", round(len(self.rows) / batches), f"{fewest:,}", spec.batch_size, f"{counts.max():,}",
                doc,
            )  # fmt: skip

    @property
    def model(self) -> SentenceTransformer:
        """The student as it is now."""
        return self._trainer.model

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that mines, evaluates and writes."""
        return bool(self._trainer.is_world_process_zero())

    def shared(self, value: Any) -> Any:
        """The value that the main process gives, in every process."""
        return broadcast_object_list([value])[0]

    def train_to(self, step: int, progress: Progress = SILENT) -> None:
        """Train until that step is done, from the newest checkpoint, or from the given student if there is none."""
        newest = self.newest_step()
        if newest >= step:
            self.load(newest)
            return
        if newest == 0 and self.is_main:  # what a first regime that fails goes back to
            self._trainer._save(str(self._checkpoints.at(0)))
            if self._bank is not None:
                self._bank.save(self._checkpoints.at(0))
        self.wait_for_everyone()
        self._trainer.optimizer = self._trainer.lr_scheduler = None  # of the last call; the checkpoint has both
        self._pause.begin, self._pause.at = newest, step
        with progress.stage("train", step - newest) as self._pause.advance:
            self._trainer.train(resume_from_checkpoint=str(self._checkpoints.at(newest)) if newest else None)
        self.wait_for_everyone()

    def load_newest(self) -> None:
        """Put the weights that training continues from into the student."""
        if (newest := self.newest_step()) > 0:
            self.load(newest)

    def load(self, step: int) -> None:
        """Put the weights of a checkpoint into the student."""
        self._trainer._load_from_checkpoint(str(self._checkpoints.at(step)))

    def save_student(self, folder: Path) -> None:
        """Write the student as it is now, to be opened by its folder; adapters are merged into its weights."""
        student = adapters.merged(self.model) if self._trainer.trains_adapters else self.model
        tokenizer = getattr(student.tokenizer, "backend_tokenizer", None)
        if tokenizer is not None:  # how the last texts were cut and padded is not part of the model
            tokenizer.no_truncation()
            tokenizer.no_padding()
        with without_bars():
            student.save(str(folder))

    def newest_step(self) -> int:
        """The step of the newest checkpoint, 0 if there is none."""
        return self._checkpoints.newest()

    def losses(self) -> list[tuple[int, float]]:
        """(step, training loss) up to the newest checkpoint, about every half percent of the run."""
        return self._checkpoints.losses()

    def roll_back(self, step: int) -> None:
        """Continue with weights and optimizer of an older step, while the learning rate keeps falling."""
        if self.is_main:
            self._checkpoints.give_newest_the_weights_of(step)
        self.wait_for_everyone()
        self.load(self.newest_step())

    def keep_only(self, steps: set[int]) -> None:
        """Delete the other checkpoints."""
        if self.is_main:
            self._checkpoints.delete([step for step in self._checkpoints.steps() if step not in steps])

    def wait_for_everyone(self) -> None:
        """Return when every process of the run has come here."""
        self._trainer.accelerator.wait_for_everyone()


class _Trainer(SentenceTransformerTrainer):
    trains_adapters = False

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """The weights that training resumes from; for a student with adapters, only those."""
        if not self.trains_adapters:
            with without_bars():
                super()._save(output_dir, state_dict)
            return
        assert output_dir is not None
        folder = Path(output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        adapters.save_adapters(self.model, folder)
        torch.save(self.args, folder / ARGUMENTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        del model  # it is always the student
        if self.trains_adapters:
            adapters.load_adapters(self.model, Path(resume_from_checkpoint))
        else:
            with without_bars():
                super()._load_from_checkpoint(resume_from_checkpoint)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Left out: it reads the data set to describe it, and foolsgold.json describes the run."""
        del default_args_dict


class _Pause(TrainerCallback):
    """Ends a call of the trainer at a step, with a checkpoint, and sets the epoch of the rows.

    begin, at: the steps that a call starts from and ends at; of the checkpoints in between only the newest is kept.
    """

    def __init__(self, rows: TrainingRows, checkpoints: Checkpoints, every: int | None) -> None:
        self.begin = self.at = 0
        self.steps_per_epoch = 1
        self.advance: Any = None
        self._rows, self._checkpoints, self._every = rows, checkpoints, every

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        del args, control, kwargs
        self._rows.set_epoch(state.global_step // self.steps_per_epoch)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        del args, kwargs
        self.advance(1)
        control.should_training_stop = state.global_step >= self.at
        control.should_save = control.should_training_stop or (
            self._every is not None and state.global_step % self._every == 0
        )
        return control

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        del args, control, kwargs
        if state.is_world_process_zero:
            steps = self._checkpoints.steps()
            self._checkpoints.delete([step for step in steps if self.begin < step < state.global_step])


def learning_rate(spec: StudentSpec, student: SentenceTransformer) -> float:
    """The recipe's learning rate, or the usual one for this kind of student."""
    if spec.learning_rate is not None:
        return spec.learning_rate
    if isinstance(student[0], StaticEmbedding):
        return _STATIC_RATE
    return _TRANSFORMER_RATE if spec.lora is None else _ADAPTER_RATE


def _arguments(
    spec: StudentSpec, student: SentenceTransformer, seed: int, folder: Path
) -> SentenceTransformerTrainingArguments:
    device = student.device.type
    if device == "cuda" and (student.device.index or 0) > 0 and not are_several():
        raise TrainingError(
            f"student.device is {student.device}, and training takes the first GPU that it sees; set the environment "
            f"variable CUDA_VISIBLE_DEVICES={student.device.index} and student.device: cuda"
        )
    precision = spec.precision
    if precision == "auto":
        precision = "bfloat16" if device == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    if spec.gradient_checkpointing:
        student.gradient_checkpointing_enable()
        if spec.lora is not None and student.transformers_model is not None:
            student.transformers_model.enable_input_require_grads()  # type: ignore[no-untyped-call]  # what is below the adapters is frozen
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=spec.batch_size,
        gradient_accumulation_steps=spec.gradient_accumulation,
        learning_rate=learning_rate(spec, student),
        weight_decay=spec.weight_decay,
        bf16=precision == "bfloat16",
        fp16=precision == "float16",
        use_cpu=device == "cpu",
        seed=seed % 2**32,
        data_seed=seed % 2**32,
        save_strategy="no",  # `_Pause` says when
        logging_strategy="steps",
        report_to="none",
        disable_tqdm=True,
        dataloader_drop_last=False,
        ddp_timeout=_LONG,
        ddp_find_unused_parameters=False,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several train as processes (torchrun), not as threads of one
    return arguments
