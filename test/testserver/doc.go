// Package testserver builds the mainstay binary and runs it as its own process, so that a test meets exactly what a
// user would start: flags, files, signals and all. It is for tests of the whole server; a test of one room starts that
// room in its own process instead.
//
// A test package that uses it wraps its TestMain in Main, which removes the binary at the end:
//
//	func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }
//
// and starts a server where it needs one:
//
//	srv := testserver.New(t, testserver.Options{})
//	client := kubernetes.NewForConfigOrDie(srv.RESTConfig())
//
// The server is stopped when the test ends. Its log is printed when the test failed, and a panic anywhere in the log
// fails a test that had passed. Under `go test -race` the server has the race detector too, and a race that it reports
// counts as a panic.
//
// With MAINSTAY_BINARY set, that file is run instead of a fresh build. Any server with the same command line will do,
// which is how the suites are tried on a real kube-apiserver behind a small wrapper.
//
// MAINSTAY_TEST_FLAGS holds flags, separated by spaces, for every server that a suite starts, to run it another way.
package testserver
