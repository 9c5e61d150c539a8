// Package processor limits CPU-heavy work, so that short requests find a free processor. Go runs
// goroutines in the order in which they become runnable, each for up to ten milliseconds, and polls
// the network when none is runnable. Fifty lists or five thousand creates that are runnable at the
// same time would delay a get by all of them. Therefore CPU-heavy work acquires a CPU slot (Turns),
// of which there are a few for each processor, so that few goroutines are runnable at a time. A
// holder releases its slot while it waits, and yields regularly (Turn.GiveWay). If slots keep all
// processors busy, the network is polled between them (netPoller). A slot is not a lock: after a
// timeout (patience), an unreleased slot is given to another waiter, so a missing release or a
// circular wait does not block. Package flowcontrol limits the number of concurrent requests.
package processor
