// Package fairqueue distributes the seats of one priority level among flows of requests. A request
// occupies seats during its execution, and some seats for a time afterwards. Requests without free
// seats wait in queues. Each flow is assigned a hand of the queues (shuffle sharding), so that a
// flow with many requests fills its own hand and few complete hands of other flows. When seats
// become free, the next request is the one that would finish first if all queues were served
// simultaneously with equal shares of the seats (fair queuing). The duration of a request is not
// known in advance, so it is charged with an estimate at its start, which is corrected at its end.
//
// The package starts no goroutines. Package flowcontrol determines the level, the flow and the
// number of seats of a request.
package fairqueue
