"""What tests share: the oracle, the calls that all must answer alike, comparisons, libraries, deliberate mistakes."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
