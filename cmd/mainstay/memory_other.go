//go:build !linux

package main

// releaseCode has no effect on systems without madvise.
func releaseCode() error { return nil }
