// Package fairqueue shares the seats of one priority level among flows of requests.
// A request occupies seats while it is executed, and some of them for a while
// longer. Those that find no seats wait in queues; a flow is dealt a hand of the
// queues (shuffle sharding), so that a flow with many requests fills its own hand
// and few whole hands of others. When seats are free, the next request is the one
// that would finish first if all queues were served at the same time, each with an
// equal part of the seats (fair queuing): that is known without knowing how long
// requests take, because each is first charged a guess, and the difference when it
// is done.
//
// It starts no goroutine and knows no request but by its seats: package flowcontrol
// decides which level and flow a request belongs to, and how many seats it takes.
package fairqueue
