package library_test

import (
	"math"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"mainstay.dev/mainstay/internal/cel/library"
)

// bounds contains the maximum sizes of variables and of their elements, by path.
type bounds map[string]uint64

func (b bounds) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	var path string
	for i, step := range node.Path() {
		if i > 0 {
			path += "."
		}
		path += step
	}
	if most, ok := b[path]; ok {
		return &checker.SizeEstimate{Max: most}
	}
	return nil
}

func (bounds) EstimateCallCost(function, _ string, _ *checker.AstNode, _ []checker.AstNode) *checker.CallEstimate {
	if function != "isURL" {
		return nil
	}
	return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(1000)}
}

// TestEstimateOfVariables checks that estimates use the sizes of variables and list elements that the schema
// specifies.
func TestEstimateOfVariables(t *testing.T) {
	t.Parallel()
	env, err := base(t).Extend(
		cel.Variable("names", cel.ListType(cel.StringType)),
		cel.Variable("numbers", cel.ListType(cel.IntType)),
		cel.Variable("text", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	estimator := &library.CostEstimator{SizeEstimator: bounds{"names": 10, "names.@items": 100, "numbers": 7, "text": 1000}}
	for expression, want := range map[string]checker.CostEstimate{
		"numbers.sum()":                         {Min: 1, Max: 8},
		"names.isSorted()":                      {Min: 1, Max: 1 + 10*(1+10)},
		"names.indexOf(text)":                   {Min: 2, Max: 2 + 10*(1+10)},
		"text.indexOf('a')":                     {Min: 1, Max: 101},
		"text.find('abcd') == ''":               {Min: 2, Max: 1 + 101 + 0},          // at least one character
		"text.findAll('a').all(x, true)":        {Min: 3, Max: 1 + 101 + 1 + 3*1000}, // 3 for each iteration
		"text.lowerAscii().upperAscii()":        {Min: 1, Max: 201},
		"text.split(',').size() > 0":            {Min: 3, Max: 203},
		"text.split(',', 3).all(x, true)":       {Min: 2, Max: 201 + 1 + 3*3},
		"text.split(',').all(x, true)":          {Min: 2, Max: 201 + 1 + 3*1000},
		"names.join(',').trim()":                {Min: 1, Max: 1 + 101 + 101}, // 1,009 characters
		"text.replace('ab', 'abcd').trim()":     {Min: 1, Max: 1 + 200 + 200},
		"ip(text).family()":                     {Min: 2, Max: 102},
		"ip.isCanonical(text)":                  {Min: 1, Max: 201},
		"cidr('10.0.0.0/8').containsIP(text)":   {Min: 1 + 1 + 1, Max: 1 + 1 + 4 + 100},
		"cidr('10.0.0.0/8').containsCIDR(text)": {Min: 1 + 1 + 3, Max: 1 + 1 + 7 + 100},
		"quantity(text).isInteger()":            {Min: 2, Max: 102},
		"semver(text, true).major()":            {Min: 2, Max: 102},
		"format.dns1123Label().validate(text)":  {Min: 2, Max: 2 + 100*32},
		"url(text) == url('/a')":                {Min: 1 + 0 + 1 + 1, Max: 1 + 100 + 1 + 1},
		"url('/a') == url(text)":                {Min: 1 + 0 + 1 + 1, Max: 1 + 100 + 1 + 100},
		"isURL(text)":                           {Min: 1001, Max: 1001},         // this package defines no cost for it
		"names.map(n, n.trim()).isSorted()":     {Min: 12, Max: math.MaxUint64}, // elements of unknown size
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			got, err := env.EstimateCost(compile(t, env, expression), estimator)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// node is an AST node with a known size.
type node struct{ size checker.SizeEstimate }

func (node) Path() []string                        { return nil }
func (node) Type() *types.Type                     { return types.StringType }
func (node) Expr() ast.Expr                        { return nil }
func (n node) ComputedSize() *checker.SizeEstimate { return &n.size }

// TestReplacedSize checks the estimated size of a string after a replacement.
func TestReplacedSize(t *testing.T) {
	t.Parallel()
	tests := []struct{ s, from, to, want checker.SizeEstimate }{
		{fixed(3), fixed(0), fixed(1), fixed(7)}, // _a_b_c_
		{fixed(3), fixed(1), fixed(0), checker.SizeEstimate{Min: 0, Max: 3}},
		{fixed(4), fixed(2), fixed(4), checker.SizeEstimate{Min: 4, Max: 8}},
		{fixed(4), checker.SizeEstimate{Max: 1}, checker.SizeEstimate{Max: 2}, checker.SizeEstimate{Max: 14}},
		{fixed(4), fixed(1), checker.SizeEstimate{Min: 1, Max: 2}, checker.SizeEstimate{Min: 4, Max: 8}},
		{fixed(4), checker.SizeEstimate{Min: 1, Max: 2}, fixed(1), checker.SizeEstimate{Min: 2, Max: 4}},
		{checker.UnknownSizeEstimate(), checker.UnknownSizeEstimate(), checker.UnknownSizeEstimate(), checker.UnknownSizeEstimate()},
	}
	for _, tt := range tests {
		var target checker.AstNode = node{tt.s}
		estimate := (&library.CostEstimator{}).EstimateCallCost("replace", "", &target, []checker.AstNode{node{tt.from}, node{tt.to}})
		if got := *estimate.ResultSize; got != tt.want {
			t.Errorf("%v by %v in %v: %v, want %v", tt.from, tt.to, tt.s, got, tt.want)
		}
	}
}

func fixed(n uint64) checker.SizeEstimate { return checker.FixedSizeEstimate(n) }

// TestDefaultCosts checks that cel-go's costs apply to functions without a cost model, and to overloads for
// which a cost model returns nil.
func TestDefaultCosts(t *testing.T) {
	t.Parallel()
	estimator := &library.CostEstimator{}
	for _, function := range []string{"startsWith", "size", "url", "find", "replace", "split", "join", "sum", "trim", "cidr", "containsIP", "validate", "_==_"} {
		if got := estimator.EstimateCallCost(function, "", nil, nil); got != nil {
			t.Errorf("%s: estimate %v", function, got)
		}
		if got := estimator.CallCost(function, "", nil, nil); got != nil && *got != 0 {
			t.Errorf("%s: cost %d", function, *got)
		}
	}
}

// TestConversions checks the conversion of values of Kubernetes types to Go values and to values of other CEL
// types.
func TestConversions(t *testing.T) {
	t.Parallel()
	env := base(t)
	address, _, err := evaluate(t, env, compile(t, env, "ip('10.0.0.1')"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := address.ConvertToNative(reflect.TypeFor[netip.Addr]()); err != nil || got != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("as an address: %v, %v", got, err)
	}
	if got, err := address.ConvertToNative(reflect.TypeFor[string]()); err != nil || got != "10.0.0.1" {
		t.Errorf("as a string: %v, %v", got, err)
	}
	if got, err := address.ConvertToNative(reflect.TypeFor[int]()); err == nil || err.Error() != "type conversion error from 'IP' to 'int'" {
		t.Errorf("as a number: %v, %v", got, err)
	}
	if got := address.ConvertToType(types.IntType); !types.IsError(got) {
		t.Errorf("converted to int: %v", got)
	}
	if got := address.ConvertToType(types.StringType); got.Equal(types.String("10.0.0.1")) != types.True {
		t.Errorf("converted to string: %v", got)
	}
	if got := address.ConvertToType(address.Type()); got != address {
		t.Errorf("converted to itself: %v", got)
	}
}

// TestElementPath checks that each call of the size estimator receives a path of its own.
func TestElementPath(t *testing.T) {
	t.Parallel()
	path := append(make([]string, 0, 4), "a", "b")
	var requested [][]string
	estimator := &library.CostEstimator{SizeEstimator: recorder(func(n checker.AstNode) { requested = append(requested, n.Path()) })}
	var list checker.AstNode = listNode{path}
	estimator.EstimateCallCost("isSorted", "", &list, nil)
	if want := [][]string{{"a", "b"}, {"a", "b", "@items"}}; !slices.EqualFunc(requested, want, slices.Equal) {
		t.Errorf("requested for %v, want %v", requested, want)
	}
	if path[:3][2] != "" {
		t.Error("the path of the list was modified")
	}
}

type listNode struct{ path []string }

func (n listNode) Path() []string                    { return n.path }
func (listNode) Type() *types.Type                   { return types.NewListType(types.StringType) }
func (listNode) Expr() ast.Expr                      { return nil }
func (listNode) ComputedSize() *checker.SizeEstimate { return nil }

type recorder func(checker.AstNode)

func (r recorder) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	r(n)
	return nil
}

func (recorder) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
