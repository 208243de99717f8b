"""A small corpus of short texts on many topics, whose tokens replace those of a text where no other corpus is at hand."""

SAMPLE = """
The ferry left the harbor an hour late, and nobody on the upper deck complained. A retired teacher was reading a novel about
sailors; two boys counted gulls; the captain, who had made the crossing nine thousand times, ate an apple and watched the radar.

How do you remove wax from a tablecloth? Let it harden, scrape off what you can with a spoon, put brown paper over the stain,
and press it with a warm iron. Repeat with fresh paper until no more wax comes out.

In 1894 the town council voted, seven to five, to replace the gas lamps in Market Street with electric ones. The gas company
sued and lost. Its director resigned, moved to the coast, and opened a hotel that still bears his name.

Water expands when it freezes because its molecules arrange themselves in an open lattice. That is why ice floats, why pipes
burst in winter, and why lakes freeze from the top, which lets fish survive below.

"I never said she stole the money," he repeated, but each time he put the weight on another word, and each time the sentence
meant something else. The lawyer smiled. The judge did not.

To sort a list of numbers, choose one of them as the pivot, put the smaller ones before it and the larger ones after it, and
sort both parts in the same way. On average this takes about n log n comparisons.

The quarterly report shows revenue of 4.2 million dollars, up from 3.9 million a year earlier. Costs grew faster: 18 percent,
mostly for freight and wages. The board expects a small loss in spring and a profit by the end of the year.

My grandmother kept bees behind the old chapel. She talked to them when someone in the family was born, married or died, as
her mother had done, and she was certain that they would leave if they were not told.

Dear Ms. Okafor, thank you for your letter of 3 May. We are sorry that the blue kettle arrived without its lid. A new lid was
posted today and should reach you within a week. Please keep the kettle; there is no need to send anything back.

The midfielder received the ball with her back to the goal, turned, and passed it through the legs of a defender. Two touches
later it was in the net, and eleven thousand people were on their feet.

Not all swans are white. Until 1697 most Europeans would have sworn that they were; then a Dutch expedition sailed up a river
in the west of Australia and found black ones. One counterexample was enough.

Mix 300 grams of flour with a pinch of salt, rub in the butter, and add cold water, one spoon at a time, until the dough holds
together. Let it rest for half an hour. Roll it thin, cover it with sliced apples, and bake it at 190 degrees.

If the train is on time, we will be in Lyon by noon. If it is late, take the tram to the old bridge, ask for Claire at the
bakery, and wait there. She has the keys, and she knows why we are coming.

The patient, a man of 52, reported pain in the left shoulder that grew worse at night. He had not fallen. An examination showed
reduced movement but no swelling, and the X-ray was normal. Rest and exercises were advised.

Who wrote the first dictionary? That depends on what counts as one: lists of words in two languages were pressed into clay
more than four thousand years ago, but the first that explained every word of one language came much later.

She opened the window. It had stopped raining, and the street smelled of wet dust and bread. Somewhere a radio was playing a
song that had been popular when she was twenty and which she had hoped never to hear again.
"""
