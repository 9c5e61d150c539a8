// Package releases tests servers that emulate a Kubernetes version, with the client libraries and kubectl of
// the same version. It compiles the program in the folder client with the libraries of each version. The files
// client/go-1.N.mod list these libraries.
//
//	go test ./test/releases -args -every
package releases
