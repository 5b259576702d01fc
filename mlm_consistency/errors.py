"""Errors that a user can cause: each names the thing, what was expected, what came, the way out.

The command line prints these as a message and exits with status 2. Any other exception is a
fault of this program and keeps its traceback.
"""


class MlmConsistencyError(Exception):
    """Base of every error that a user's input, configuration or files can cause."""


class ConfigError(MlmConsistencyError):
    """A setting is missing, misspelt or contradicts another; the message names the binding."""


class UnknownNameError(ConfigError):
    """A name is in no table; the message offers the nearest ones and the whole list."""


class DataError(MlmConsistencyError):
    """An input file is missing or malformed; the message names the file and the line."""


class VocabularyError(MlmConsistencyError):
    """A vocabulary cannot be read, or lacks what a conditional needs (a sentinel, say)."""


class CheckpointError(MlmConsistencyError):
    """A checkpoint is missing, truncated or of another architecture; the message names the leaf."""


class ScoringError(MlmConsistencyError):
    """An example cannot be scored, or its score is not finite; the message names it."""


class RecordsError(MlmConsistencyError):
    """A run folder is incomplete, of another schema, or belongs to another configuration."""


class AnalysisError(MlmConsistencyError):
    """Records or tables do not allow the figure that was asked for."""
