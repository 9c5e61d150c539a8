// Package policy checks the expressions of admission: those of policies, their variables
// and mutations, and the conditions of webhooks. Variables, types and errors are
// kube-apiserver's.
//
// It evaluates nothing: functions that ask for permissions are declared, and have no
// implementation.
//
// Imports: cel/environment, cel/library.
package policy
