// Package lint contains tests of the layout of this module: the layering of packages, package comments,
// dependencies, links in documents, and the absence of mutable global variables. It has no other code.
package lint
