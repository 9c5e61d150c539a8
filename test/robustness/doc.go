// Package robustness breaks the server while clients use it, and checks what they were promised. A suite runs the
// built binary, has many clients write and watch over connections of their own, stops or kills the process in the
// middle, and afterwards checks the record of what each client received:
//
//   - linearizability: concurrent reads and writes of a few objects are as if one after another (model.go, checked by
//     porcupine), over the embedded store, and over an etcd that one or more servers share.
//   - faults: all of that, and watches, through three servers over three members of etcd, which fail in many ways.
//   - crashes: what was acknowledged is there after kill -9, nothing else is, and watches go on where they were.
//   - disk: a disk that is full, or has lost a log, is reported as what it is, and as much is served as can be.
//   - churn: watches keep their guarantees with slow readers and little history.
//   - controllers: the one of three servers that runs them is killed, and another one finishes its work.
//   - hostile writes: objects and patches that expand to far more than their size cost little of the server's time and memory.
//
// The guarantees of watches are predicates with the names that etcd's robustness tests gave them (predicates.go).
//
// A run prints its seed; -seed repeats its random choices, though not the timing. -kills, -faults and -operations make
// the suites longer than `go test` does. docs/robustness.md has the list of what is promised and tried.
package robustness
