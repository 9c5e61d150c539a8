// Package releases tests emulated Kubernetes versions with the client libraries and kubectl of the same
// version. The program client is compiled with the libraries of each version, whose requirements are in
// the files client/go-1.N.mod.
//
//	go test ./test/releases -args -every
package releases
