//go:build !linux

package main

// releaseCode does nothing on systems without madvise.
func releaseCode() error { return nil }
