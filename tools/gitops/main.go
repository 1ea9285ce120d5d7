// Command gitops-health judges objects like GitOps tools do: with kstatus, the library of Flux and Helm 4,
// and with the Lua health checks of Argo CD, in its interpreter and with its libraries.
//
// Standard input is {"script": "...", "objects": [...]}, standard output a list of {"kstatus": {...}, "argo": {...}}.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
)

type question struct {
	Script  string           `json:"script"`
	Objects []map[string]any `json:"objects"`
}

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type answer struct {
	Kstatus verdict `json:"kstatus"`
	Argo    verdict `json:"argo"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	answers := make([]answer, 0, len(asked.Objects))
	for _, object := range asked.Objects {
		kstatus, err := kstatusOf(object)
		if err != nil {
			return err
		}
		argo, err := argoOf(asked.Script, object)
		if err != nil {
			return err
		}
		answers = append(answers, answer{Kstatus: kstatus, Argo: argo})
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func kstatusOf(object map[string]any) (verdict, error) {
	result, err := status.Compute(&unstructured.Unstructured{Object: withIntegers(object)})
	if err != nil {
		return verdict{}, err
	}
	return verdict{Status: result.Status.String(), Message: result.Message}, nil
}

// withIntegers decodes the object like the Kubernetes client, with whole numbers as integers.
func withIntegers(object map[string]any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	whole := &unstructured.Unstructured{}
	if err := whole.UnmarshalJSON(text); err != nil {
		panic(err)
	}
	return whole.Object
}

// argoOf runs the script like Argo CD does without `useOpenLibs`: with only the base, package and table libraries.
func argoOf(script string, object map[string]any) (verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
	} {
		call := lua.P{Fn: state.NewFunction(library.open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			return verdict{}, err
		}
	}
	state.SetGlobal("obj", luajson.DecodeValue(state, object))
	if err := state.DoString(script); err != nil {
		return verdict{}, err
	}
	returned, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return verdict{}, fmt.Errorf("the health check must return a table")
	}
	text, err := luajson.Encode(returned)
	if err != nil {
		return verdict{}, err
	}
	var result verdict
	return result, json.Unmarshal(text, &result)
}
