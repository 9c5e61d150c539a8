// Package processor shares the processors between work that would take all of them and
// requests that need one for a moment.
//
// Go runs what is runnable in the order in which it became so, each for up to ten
// milliseconds, and asks for news of the network when nothing is left to run. Fifty lists
// or five thousand creates that are runnable at once are all in front of a get that comes
// then. So whoever has much to do does it in turns (Turns), of which there are a few for
// each processor: while all others wait for theirs, few are runnable. Who has one gives
// it back when it waits for something else, and gives way now and then (Turn.GiveWay).
// Where turns keep all processors busy, the network is looked at between them (netPoller).
//
// A turn is no lock and no permission: one that is not given back in time is not waited for
// (patience), so that nothing hangs when a wait was forgotten, and two that wait for each
// other go on. How many requests are served at a time is package flowcontrol's affair.
package processor
