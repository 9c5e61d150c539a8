//go:build race

package alloctest

const raceDetector = true
