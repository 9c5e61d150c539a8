// Package law holds tests that keep the layout of this module true: which
// package may import which, that every package says what it is for, that
// kube-apiserver's own server code is not used, that documents are where they are said to be,
// and that no package keeps state of its own. It has no code to be used.
package law
