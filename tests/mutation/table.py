"""All mutations, from the lowest floor up; `docs/architecture.md` has the floors."""

from tests.mutation.data_mutations import DATA_MUTATIONS
from tests.mutation.door_mutations import DOOR_MUTATIONS
from tests.mutation.layer_mutations import LAYER_MUTATIONS
from tests.mutation.model_mutations import MODEL_MUTATIONS
from tests.mutation.mutation import Mutation

MUTATIONS: tuple[Mutation, ...] = (
    *DATA_MUTATIONS, *LAYER_MUTATIONS, *MODEL_MUTATIONS, *DOOR_MUTATIONS,
)  # fmt: skip
