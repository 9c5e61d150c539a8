// Package robustness injects faults into the server while clients use it, and checks the server's guarantees.
// Each suite runs the built binary, and writes and watches with many clients, which have their own connections.
// Meanwhile, it stops or kills the process. It then checks the responses and events that each client has
// received:
//
//   - linearizability: concurrent reads and writes of a few objects are linearizable (model.go, checked by
//     porcupine), with the embedded store, and with one or more servers that share an etcd.
//   - faults: with three servers and three etcd members that fail in many ways, reads and writes are linearizable,
//     and watches keep their guarantees.
//   - crashes: after kill -9, exactly the acknowledged writes exist, and watches continue.
//   - disk: a full disk or a lost log is reported, and the server still serves as many requests as possible.
//   - churn: watches keep their guarantees if clients read slowly and the history is short.
//   - controllers: if the server that runs the controllers is killed, one of the two other servers continues
//     their work.
//   - hostile writes: objects and patches that expand to a multiple of their size need little time and memory in
//     the server.
//
// The guarantees of watches are predicates with the names of etcd's robustness tests (predicates.go).
//
// A run prints its seed. -seed repeats the random choices of a run, but not its timing. -kills, -faults and
// -operations change the length of the suites. docs/internals/robustness.md lists the guarantees and the tests.
package robustness
