// Package fairqueue distributes the seats of one priority level among flows of requests. A request occupies
// seats during its execution, and can occupy seats for some time afterwards. If no seats are free, requests
// wait in queues. Each flow is assigned a hand of the queues (shuffle sharding), so that a flow with many
// requests fills the queues of its own hand, but rarely all queues in the hand of another flow. When seats
// become free, the next request is the one that would finish first if all queues were served simultaneously
// with equal shares of the seats (fair queuing). The duration of a request is not known in advance, so the
// request is charged with an estimate when it starts, and the charge is corrected when it ends.
//
// The package starts no goroutines. Package flowcontrol determines the level, the flow and the
// number of seats of a request.
package fairqueue
