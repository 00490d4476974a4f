"""ERNIE of Tsinghua (Zhang et al., ACL 2019): its family, its entities, and its objectives."""
