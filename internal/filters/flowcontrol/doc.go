// Package flowcontrol is API priority and fairness: it gives each request a turn by
// the FlowSchemas and PriorityLevelConfigurations of flowcontrol.apiserver.k8s.io,
// as kube-apiserver does. A schema says which level a request is of, and which flow
// of the level it belongs to; a level has seats, which levels lend to each other,
// and how its flows share them is up to package fairqueue. How many seats a request
// takes is estimated by what it will have the server do.
//
// A Control has no goroutine of its own. What is periodic in kube-apiserver is made up for
// by the next request: an idle server does nothing.
//
// It answers no request: that is for package filters.
package flowcontrol
