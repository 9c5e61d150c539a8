// Package policy checks, compiles and evaluates the expressions of admission: those of
// policies, their variables and mutations, and the conditions of webhooks. Variables,
// types, costs and errors are kube-apiserver's.
//
// A Compiler makes Programs of the expressions of one policy; an Input is what they see of
// one request, and a Budget what they may cost. What comes of it is decided in admission.
package policy
