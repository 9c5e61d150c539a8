//go:build race

package testserver

// raceDetector builds the server as the test itself is built.
const raceDetector = true
