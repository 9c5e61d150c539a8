// Package testserver builds the mainstay binary and runs it as a separate process, exactly as a
// user would start it, with flags, files and signals. It is for tests of the whole server; tests of
// a package should use it in their own process.
//
// A test package that uses it calls Main in its TestMain, which removes the binary at the end:
//
//	func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }
//
// A test starts a server with New:
//
//	srv := testserver.New(t, testserver.Options{})
//	client := kubernetes.NewForConfigOrDie(srv.RESTConfig())
//
// The server is stopped when the test ends. Its log is printed if the test failed, and a panic in the log
// fails the test. With `go test -race`, the server is also built with the race detector, and a reported race
// counts as a panic.
//
// If MAINSTAY_BINARY is set, this file is run instead of a new build. It can be any server with the
// same command line, for example a real kube-apiserver behind a small wrapper.
//
// If MAINSTAY_TEST_CONTROL_PLANE is set, the tests use the API of a ControlPlane object instead of the root
// control plane. With the value "fork", they use a fork of another ControlPlane.
//
// MAINSTAY_TEST_FLAGS contains additional flags, separated by spaces, for every server that a suite
// starts.
package testserver
