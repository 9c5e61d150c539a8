// Package policy checks, compiles and evaluates the expressions of admission: policies, their
// variables and mutations, and match conditions. Variables, types, costs and errors are those of
// kube-apiserver. A Compiler creates Programs from the expressions of one policy. An Input contains
// the variables for one request, and a Budget limits the cost. The admission packages interpret the
// results.
package policy
