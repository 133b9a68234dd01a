"""
Mistakes in configurations that are found while a repository is polled, and the text that is logged.

Each is the model's name, its `config.pbtxt`, and the text.
"""

TOLD_BY_TRITON = (
    (
        "minus_space",
        'backend:"python" max_batch_size: - 1',
        "'max_batch_size' must be non-negative value for minus_space",
    ),
    (
        "neg",
        'backend:"python" max_batch_size: -1',
        "'max_batch_size' must be non-negative value for neg",
    ),
    (
        "sameinput2",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START int32_false_true:[0,1]}} control_input{name:"A" control{kind:CONTROL_SEQUENCE_END int32_false_true:[0,1]}}}',
        "sequence batching control tensor 'A' is specified for multiple control kinds for sameinput2",
    ),
    (
        "dupstart",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START int32_false_true:[0,1]}} control_input{name:"B" control{kind:CONTROL_SEQUENCE_START int32_false_true:[0,1]}}}',
        "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for dupstart",
    ),
    (
        "noname_vs_bad",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START}} control_input{name:"" control{kind:CONTROL_SEQUENCE_END int32_false_true:[0,1]}}}',
        "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_START for noname_vs_bad",
    ),
    (
        "cachefirst",
        'backend:"python" max_batch_size:4 response_cache{enable:true} sequence_batching{control_input{name:"" control{kind:CONTROL_SEQUENCE_START}}}',
        "Response Cache does not currently support model cachefirst with sequence batching scheduler. Please disable the response cache.",
    ),
    (
        "cachedec",
        'backend:"python" max_batch_size:4 response_cache{enable:true} model_transaction_policy{decoupled:true} dynamic_batching{preferred_batch_size:9}',
        "dynamic batching preferred size must be <= max batch size for cachedec",
    ),
    (
        "cachedec2",
        'backend:"python" max_batch_size:4 response_cache{enable:true} model_transaction_policy{decoupled:true} sequence_batching{}',
        "Response Cache does not currently support model cachedec2 with sequence batching scheduler. Please disable the response cache.",
    ),
    (
        "dynorder",
        'backend:"python" max_batch_size:4 dynamic_batching{preferred_batch_size:[9,0] priority_levels:2}',
        "dynamic batching preferred size must be <= max batch size for dynorder",
    ),
    (
        "dynorder2",
        'backend:"python" max_batch_size:4 dynamic_batching{preserve_ordering:true priority_levels:2 default_priority_level:1 default_queue_policy{timeout_action:DELAY default_timeout_microseconds:1}}',
        "Only one priority level is allowed when 'preserve_ordering' is true for dynorder2",
    ),
    (
        "corridbad",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_CORRID data_type:TYPE_FP32 int32_false_true:[0,1]}}}',
        "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_CORRID for corridbad",
    ),
    (
        "corridtype",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_CORRID data_type:TYPE_FP32}}}',
        "unexpected data type for control CONTROL_SEQUENCE_CORRID for corridtype. Allowed data types are TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32 and TYPE_STRING",
    ),
    (
        "corridtwice",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_CORRID data_type:TYPE_UINT64}} control_input{name:"B" control{kind:CONTROL_SEQUENCE_CORRID data_type:TYPE_UINT64}}}',
        "sequence batching specifies multiple CONTROL_SEQUENCE_CORRID tensors for corridtwice",
    ),
    (
        "startbad2",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START int32_false_true:[0,1] fp32_false_true:[0]}}}',
        "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for CONTROL_SEQUENCE_START for startbad2",
    ),
    (
        "startbad1",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_START fp32_false_true:[0]}}}',
        "sequence batching control 'fp32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_START for startbad1",
    ),
    (
        "readybad0",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_READY}}}',
        "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for CONTROL_SEQUENCE_READY for readybad0",
    ),
    (
        "readybool3",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{name:"A" control{kind:CONTROL_SEQUENCE_READY bool_false_true:[true,false,true]}}}',
        "sequence batching control 'bool_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for readybool3",
    ),
    (
        "oldestneg",
        'backend:"python" max_batch_size:4 sequence_batching{oldest{preferred_batch_size:[0,9]}}',
        "sequence batching preferred batch size must be positive for oldestneg",
    ),
    (
        "oldestbig",
        'backend:"python" max_batch_size:4 sequence_batching{oldest{preferred_batch_size:[9,0]}}',
        "sequence batching preferred batch size must be <= max batch size for oldestbig",
    ),
    (
        "util2",
        'backend:"python" max_batch_size:4 sequence_batching{direct{minimum_slot_utilization:1.5}}',
        "sequence batching minimum slot utilization must be in range (0.0, 1.0] for util2",
    ),
    (
        "platpy",
        'platform:"python"',
        "unexpected platform type 'python' for platpy",
    ),
    (
        "beens",
        'backend:"python" platform:"ensemble"',
        "Ensemble model 'beens' must have platform type 'ensemble' and empty backend type",
    ),
    (
        "beens2",
        'backend:"python" platform:"ensemble" max_batch_size:-1',
        "Ensemble model 'beens2' must have platform type 'ensemble' and empty backend type",
    ),
    (
        "trtbe",
        'backend:"tensorrt" platform:"foo"',
        "unexpected 'platform' and 'backend' pair, got:foo, tensorrt",
    ),
    (
        "onnxplat",
        'backend:"onnxruntime" platform:"tensorflow_savedmodel"',
        "unexpected 'platform' and 'backend' pair, got:tensorflow_savedmodel, onnxruntime",
    ),
    (
        "tfnoplat",
        'backend:"tensorflow"',
        "unexpected 'platform' and 'backend' pair, got:, tensorflow",
    ),
    (
        "nameneg",
        'name:"other" backend:"python" max_batch_size:-1',
        "'max_batch_size' must be non-negative value for other",
    ),
    (
        "nameneg2",
        'name:"other" platform:"python"',
        "unexpected platform type 'python' for other",
    ),
    (
        "en_plat",
        'backend:"python" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "ensemble scheduling cannot be set for model 'en_plat' whose platform is not ensemble",
    ),
    (
        "en_noplat",
        'input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "Invalid model name: Could not determine backend for model 'en_noplat' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
    ),
    (
        "en_group",
        'platform:"ensemble" instance_group{} optimization{} model_warmup{} input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "instance group should not be specified for ensemble 'en_group'",
    ),
    (
        "en_opt",
        'platform:"ensemble" optimization{} model_warmup{} input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "optimization should not be specified for ensemble 'en_opt'",
    ),
    (
        "en_warm",
        'platform:"ensemble" model_warmup{} input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "model_warmup can not be specified for ensemble 'en_warm'",
    ),
    (
        "en_nostep",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{}',
        "must specify 'step' for ensemble 'en_nostep'",
    ),
    (
        "en_nosched",
        'platform:"ensemble"',
        "ensemble scheduling must be set for ensemble en_nosched whose platform is ensemble",
    ),
    (
        "en_nosched2",
        'platform:"ensemble" max_batch_size:-1',
        "'max_batch_size' must be non-negative value for en_nosched2",
    ),
    (
        "en_name",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{}}',
        "must specify 'model_name' in step 0 of ensemble 'en_name'",
    ),
    (
        "en_in",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"x"}}',
        "must specify 'input_map' in step 0 of ensemble 'en_in'",
    ),
    (
        "en_out",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"x" input_map{key:"a" value:"b"}}}',
        "must specify 'output_map' in step 0 of ensemble 'en_out'",
    ),
    (
        "en_twice",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"}} step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"}}}',
        "ensemble tensor 'Z' can appear in an output map only once for ensemble 'en_twice' step 1",
    ),
    (
        "en_twice_same",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"} output_map{key:"P" value:"Z"}}}',
        "ensemble tensor 'Z' can appear in an output map only once for ensemble 'en_twice_same' step 0",
    ),
    (
        "en_unusedin",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"Q"} output_map{key:"O" value:"Z"}}}',
        "ensemble input 'A' for ensemble en_unusedin' is not used",
    ),
    (
        "en_unusedout",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Y"}}}',
        "ensemble output 'Z' for ensemble en_unusedout' is not used",
    ),
    (
        "en_notw",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"Q"} input_map{key:"J" value:"A"} output_map{key:"O" value:"Z"}}}',
        "output 'Z' for ensemble 'en_notw' is not written: at least one of its depending tensors, 'Q', is not connected",
    ),
    (
        "en_notw2",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Y"}} step{model_name:"other" model_version:-1 input_map{key:"I" value:"Z"} output_map{key:"O" value:"X"}}}',
        "output 'Z' for ensemble 'en_notw2' is not written",
    ),
    (
        "en_dangle",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"other" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"} output_map{key:"P" value:"Y"}}}',
        "ensemble tensor 'Y' is unused in ensemble 'en_dangle'",
    ),
    (
        "en_dupkey",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"o" input_map{key:"I" value:"A"} input_map{key:"I" value:"B"} output_map{key:"O" value:"Z"}}}',
        "ensemble input 'A' for ensemble en_dupkey' is not used",
    ),
    (
        "en_dyn",
        'platform:"ensemble" dynamic_batching{}',
        "ensemble scheduling must be set for ensemble en_dyn whose platform is ensemble",
    ),
    (
        "en_cache",
        'platform:"ensemble" response_cache{enable:true} model_transaction_policy{decoupled:true} input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1}ensemble_scheduling{step{model_name:"echo" model_version:-1 input_map{key:"I" value:"A"} output_map{key:"O" value:"Z"}}}',
        "Response Cache does not currently support model en_cache with 'decoupled' transaction policy. Please disable the response cache.",
    ),
    (
        "pref_zero",
        'backend:"python" max_batch_size:4 dynamic_batching{preferred_batch_size:[4,0]}',
        "dynamic batching preferred size must be positive for pref_zero",
    ),
    (
        "pref_unbatched",
        'backend:"python" dynamic_batching{preferred_batch_size:1}',
        "dynamic batching preferred size must be <= max batch size for pref_unbatched",
    ),
    (
        "level_unset",
        'backend:"python" max_batch_size:4 dynamic_batching{priority_levels:3}',
        "default priority level must be in range [1, 3] for level_unset",
    ),
    (
        "level_big",
        'backend:"python" max_batch_size:4 dynamic_batching{priority_levels:3 default_priority_level:4}',
        "default priority level must be in range [1, 3] for level_big",
    ),
    (
        "policy_zero",
        'backend:"python" max_batch_size:4 dynamic_batching{priority_levels:3 default_priority_level:1 priority_queue_policy{key:0 value{}}}',
        "priority queue policy must have priority level in range [1, 3] for policy_zero",
    ),
    (
        "policy_big",
        'backend:"python" max_batch_size:4 dynamic_batching{priority_levels:3 default_priority_level:1 priority_queue_policy{key:4 value{}}}',
        "priority queue policy must have priority level in range [1, 3] for policy_big",
    ),
    (
        "delay_default",
        'backend:"python" max_batch_size:4 dynamic_batching{preserve_ordering:true default_queue_policy{timeout_action:DELAY default_timeout_microseconds:1}}',
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for delay_default",
    ),
    (
        "delay_level",
        'backend:"python" max_batch_size:4 dynamic_batching{preserve_ordering:true priority_levels:1 default_priority_level:1 priority_queue_policy{key:1 value{timeout_action:DELAY default_timeout_microseconds:1}}}',
        "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for delay_level",
    ),
    (
        "control_unnamed",
        'backend:"python" max_batch_size:4 sequence_batching{control_input{}}',
        "sequence batching control tensor must have a name for control_unnamed",
    ),
    (
        "other_directory",
        'name:"other" backend:"python" ',
        "unexpected directory name 'other_directory' for model 'other', directory name must equal model name",
    ),
    (
        "cache_decoupled",
        'backend:"python" response_cache{enable:true} model_transaction_policy{decoupled:true}',
        "Response Cache does not currently support model cache_decoupled with 'decoupled' transaction policy. Please disable the response cache.",
    ),
    (
        "nobackend",
        "",
        "Invalid model name: Could not determine backend for model 'nobackend' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.",
    ),
    (
        "circle",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1} ensemble_scheduling{step{model_name:"x" input_map{key:"I" value:"Z"} input_map{key:"J" value:"A"} output_map{key:"O" value:"Y"}} step{model_name:"x" input_map{key:"I" value:"Y"} output_map{key:"O" value:"Z"}}}',
        "output 'Z' for ensemble 'circle' is not written",
    ),
    (
        "chain",
        'platform:"ensemble" input{name:"A" data_type:TYPE_INT32 dims:1} output{name:"Z" data_type:TYPE_INT32 dims:1} ensemble_scheduling{step{model_name:"x" input_map{key:"I" value:"Q"} input_map{key:"J" value:"A"} output_map{key:"O" value:"Y"}} step{model_name:"x" input_map{key:"I" value:"Y"} output_map{key:"O" value:"Z"}}}',
        "output 'Z' for ensemble 'chain' is not written: at least one of its depending tensors, 'Q', is not connected",
    ),
    (
        "self",
        'platform:"ensemble" output{name:"Z" data_type:TYPE_INT32 dims:1} ensemble_scheduling{step{model_name:"x" input_map{key:"I" value:"Z"} output_map{key:"O" value:"Z"}}}',
        "output 'Z' for ensemble 'self' is not written",
    ),
)
"""As a Triton 2.51 logged them."""

TOLD_BY_NEWER_TRITON = (
    (
        "metric_unidentified",
        'backend:"python" model_metrics{metric_control{}}',
        "metric control must specify 'metric_identifier'",
    ),
    (
        "metric_unnamed",
        'backend:"python" model_metrics{metric_control{metric_identifier{}}}',
        "metric identifier must specify non-empty 'family'",
    ),
    (
        "metric_open",
        'backend:"python" model_metrics{metric_control{metric_identifier{family:"f"}}}',
        "metric control must specify 'histogram_options'",
    ),
    (
        "metric_empty",
        'backend:"python" model_metrics{metric_control{metric_identifier{family:"f"} histogram_options{}}}',
        "histogram options must specify non-empty 'buckets'",
    ),
    (
        "libtorch",
        'platform:"libtorch"',
        "unexpected 'platform' and 'backend' pair, got:libtorch, pytorch",
    ),
)
"""Of rules that came after 2.51."""
