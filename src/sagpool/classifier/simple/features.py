"""The features of whole graphs that simple models know."""

from sagpool.classifier.simple.counts import Counts
from sagpool.classifier.simple.environments import Environments
from sagpool.classifier.simple.subtrees import Subtrees

Features = Counts | Subtrees | Environments
