// Package flowcontrol implements API priority and fairness (KEP-1040). It classifies each request
// by the FlowSchemas and PriorityLevelConfigurations of flowcontrol.apiserver.k8s.io. A schema
// determines the level and the flow of the request. A level has a number of seats, some of which
// other levels can borrow. Package fairqueue distributes the seats of a level among its flows. The
// number of seats that a request needs is estimated from its expected work.
//
// A Control has no goroutines. Requests perform the periodic tasks of kube-apiserver, so an idle
// server does nothing.
//
// Package filters writes the responses to rejected requests.
package flowcontrol
