// Command record evaluates CEL expressions as the API server does for a ValidatingAdmissionPolicy and prints value,
// error, refusal, type and cost of each. It is the source of ../expectations.json; see record.py.
//
// Build it in an empty folder with a go.mod that requires k8s.io/apiserver at the version to follow.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type acc struct{ e string }

func (a *acc) GetExpression() string    { return a.e }
func (a *acc) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

func show(v ref.Val) string {
	switch t := v.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(t))
	case types.Int:
		return strconv.FormatInt(int64(t), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(t), 10) + "u"
	case types.Double:
		return "d" + strconv.FormatFloat(float64(t), 'g', -1, 64)
	case types.String:
		b, _ := json.Marshal(string(t))
		s := string(b)
		s = strings.ReplaceAll(s, "\\u003c", "<")
		s = strings.ReplaceAll(s, "\\u003e", ">")
		s = strings.ReplaceAll(s, "\\u0026", "&")
		return s
	case types.Bytes:
		return fmt.Sprintf("b%x", []byte(t))
	case types.Duration:
		return fmt.Sprintf("dur%d", t.Duration.Nanoseconds())
	case types.Timestamp:
		return "ts" + string(t.ConvertToType(types.StringType).(types.String))
	case *types.Type:
		return "type " + t.TypeName()
	case *types.Optional:
		if t.HasValue() {
			return "some(" + show(t.GetValue()) + ")"
		}
		return "none"
	case traits.Lister:
		var p []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			p = append(p, show(it.Next()))
		}
		return "[" + strings.Join(p, ",") + "]"
	case traits.Mapper:
		var p []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			p = append(p, show(k)+":"+show(t.Get(k)))
		}
		sort.Strings(p)
		return "{" + strings.Join(p, ",") + "}"
	}
	return "opaque " + v.Type().TypeName()
}

type in struct {
	E string          `json:"e"`
	V json.RawMessage `json:"v"`
}
type out struct {
	C    string `json:"compile,omitempty"`
	T    string `json:"type,omitempty"`
	V    string `json:"value,omitempty"`
	E    string `json:"error,omitempty"`
	Cost uint64 `json:"cost"`
}

func main() {
	c := plugincel.NewCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	r := bufio.NewReaderSize(os.Stdin, 1<<24)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var q in
			if e := json.Unmarshal(line, &q); e != nil {
				panic(e)
			}
			var vars map[string]any
			if len(q.V) > 0 {
				if e := utiljson.Unmarshal(q.V, &vars); e != nil {
					panic(e)
				}
			}
			if vars == nil {
				vars = map[string]any{}
			}
			b, _ := json.Marshal(one(c, q.E, vars))
			w.Write(b)
			w.WriteByte('\n')
			w.Flush()
		}
		if err != nil {
			break
		}
	}
}

func one(c plugincel.Compiler, e string, vars map[string]any) (o out) {
	defer func() {
		if r := recover(); r != nil {
			o.E = fmt.Sprintf("PANIC %v", r)
		}
	}()
	res := c.CompileCELExpression(&acc{e}, plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}, environment.NewExpressions)
	if res.Error != nil {
		o.C = res.Error.Detail
		return
	}
	o.T = res.OutputType.String()
	v, d, err := res.Program.ContextEval(context.Background(), vars)
	if d != nil && d.ActualCost() != nil {
		o.Cost = *d.ActualCost()
	}
	if err != nil {
		o.E = err.Error()
		return
	}
	o.V = show(v)
	return
}
