"""A CSI driver for demonstrations and tests: volumes on loop devices, honest and small."""
